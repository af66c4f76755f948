"""Preferences of a robots.txt about uses of pages: Content-Usage, Content-Signal, License."""

from __future__ import annotations

import re
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawling.robots.rules import RobotsRules, rules_in

US = "oddbot/1.0 (+https://example.com/bot)"
SITE = "https://a.example"


def rules(text: str) -> RobotsRules:
    """Return what a file says, which says something."""
    found = rules_in(text.encode(), time.monotonic())
    assert found
    return found


def said(text: str, path: str = "/page", agent: str = US) -> list[tuple[str, str]]:
    """Return names and values of the statements of a file about a page."""
    found = rules(text).says_of(SITE + path, agent)
    return [(each.name, each.value) for each in found.statements] if found else []


DRAFT = """
User-agent: *
Allow: /
Disallow: /private/
Content-Usage: / train-ai=n
Content-Usage: /open/ train-ai=y

User-agent: friendly
Allow: /
Content-Usage: / train-ai=y
"""


@pytest.mark.parametrize(
    ("path", "agent", "value"),
    [
        ("/page", US, "train-ai=n"),
        ("/open/page", US, "train-ai=y"),
        ("/open", US, "train-ai=n"),
        ("/page", "friendly/2", "train-ai=y"),
        ("/open/page", "friendly/2", "train-ai=y"),
    ],
)
def test_the_longest_path_of_a_group_counts(path: str, agent: str, value: str) -> None:
    """Applies the longest path of the agent's own group, as for rules."""
    assert said(DRAFT, path, agent) == [("content-usage", value)]
    assert not rules(DRAFT).allow(f"{SITE}/private/x", US)


MANAGED = """
Content-Signal: search=yes
User-agent: *
Content-Signal: search=yes,ai-train=no,use=reference
Allow: /

User-agent: greedybot
Disallow: /
"""


def test_signals_are_for_the_agents_above_them() -> None:
    """Applies signals to the agents above them, or to all above any group; keeps unknown words."""
    first, second = (
        ("content-signal", "search=yes"),
        (
            "content-signal",
            "search=yes,ai-train=no,use=reference",
        ),
    )
    assert said(MANAGED) == [first, second]
    assert said(MANAGED, agent="greedybot") == [first]
    found = rules(MANAGED).says_of(SITE, US)
    assert found
    assert [dict(each.uses) for each in found.statements] == [
        {"search": "y"},
        {"search": "y", "train-ai": "n"},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "License: https://l.example/license.xml",
        "License: https://l.example/license.xml\nUser-agent: oddbot\nAllow: /",
        "User-agent: other\nAllow: /\n\nLicense:https://l.example/license.xml # terms",
        "User-agent: other\nLICENSE : HTTPS://l.example/license.xml\nUser-agent: x\nDisallow: /",
    ],
)
def test_a_license_is_for_everybody(text: str) -> None:
    """Applies a license to all agents, wherever it stands."""
    assert said(text) == [("license", "https://l.example/license.xml")]


LINES: dict[str, tuple[str, list[str]]] = {
    "no path": ("Content-Usage: train-ai=n", ["train-ai=n"]),
    "no path and all": ("Content-Usage: train-ai=n\nContent-Usage: / train-ai=y", [
        "train-ai=n", "train-ai=y",
    ]),
    "equal paths": ("Content-Usage: /p train-ai=y\nContent-Usage: /p search=n", [
        "train-ai=y", "search=n",
    ]),
    "the same twice": ("Content-Usage: / search=n\nContent-Usage: / search=n", ["search=n"]),
    "a tab": ("content-usage:\t/page\ttrain-ai=n\t", ["train-ai=n"]),
    "a comment": ("Content-Usage: / train-ai=n # search=n", ["train-ai=n"]),
    "a wildcard": ("Content-Usage: /*ge search=n\nContent-Usage: /*gx search=y", ["search=n"]),
    "an end": ("Content-Usage: /page$ search=n\nContent-Usage: /pag$ search=y", ["search=n"]),
    "a wildcard and an end": ("Content-Usage: /p*e$ search=n\nContent-Usage: /*a$ x=y", [
        "search=n",
    ]),
    "an escape": ("Content-Usage: /%70age search=n", ["search=n"]),
    "another page": ("Content-Usage: /other search=n", []),
    "a path alone": ("Content-Usage: /page", []),
    "no dictionary": ("Content-Usage: / TRAIN-AI=n\nContent-Usage: / train-ai=n,", []),
    "octets": ("Content-Usage: / train-ai=\xff", []),
    "a list of words": ("Content-Signal: yes, no", []),
    "a license without a scheme": ("License: /license.xml\nLicense: MIT", []),
    "a license for no request": ("License: mailto:a@l.example\nLicense:", []),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "values"), LINES.values(), ids=LINES)
def test_lines_of_a_group(lines: str, values: list[str]) -> None:
    """Lines that cannot be read say nothing."""
    text = f"User-agent: *\nDisallow: /x\n{lines}".encode("latin-1")
    found = rules_in(text)
    assert found
    says = found.says_of(f"{SITE}/page", US)
    assert ([each.value for each in says.statements] if says else []) == values


def test_a_usage_ends_the_agents_above_it_and_a_signal_does_not() -> None:
    """The draft makes one a rule; the other one is a record of another kind."""
    text = "User-agent: oddbot\n{}\nUser-agent: other\nDisallow: /x"
    assert rules(text.format("Content-Usage: / train-ai=n")).allow(f"{SITE}/x", US)
    assert not rules(text.format("Content-Signal: ai-train=no")).allow(f"{SITE}/x", US)
    usage = text.format("Content-Usage: / train-ai=n")
    assert (said(usage), said(usage, agent="other")) == ([("content-usage", "train-ai=n")], [])
    both = f"User-agent: a\nUser-agent: oddbot\nContent-Usage: / train-ai=n\n{usage}"
    assert said(both) == [("content-usage", "train-ai=n")]


def test_a_file_without_preferences_says_nothing() -> None:
    """Finds no preferences in a file without them, or with those of other agents only."""
    assert rules("User-agent: *\nDisallow: /x").says_of(SITE, US) is None
    assert rules(DRAFT + "User-agent: oddbot\nDisallow: /x").says_of(SITE, US) is None


def test_the_age_of_the_file_is_told() -> None:
    """Reports the age of the file in seconds, at the time when the page is let through."""
    found = rules_in(b"Content-Signal: ai-train=no", time.monotonic() - 90)
    assert found
    says = found.says_of(SITE, US)
    assert says
    assert says.age_s in {90, 91}


_PATHS = st.text("ab/*$", max_size=8).map("/{}".format)


def naive(paths: list[str], path: str) -> set[int]:
    """Return the numbers of the lines that count; by expressions: the referee."""
    fitting = {}
    for number, pattern in enumerate(paths):
        expression = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*")
        if re.match(expression + (r"\Z" if pattern.endswith("$") else ""), path):
            fitting[number] = len(pattern)
    return {number for number, size in fitting.items() if size == max(fitting.values())}


@given(st.lists(_PATHS, max_size=6), st.text("ab/", max_size=10).map("/{}".format))
def test_a_naive_reader_finds_the_same(paths: list[str], path: str) -> None:
    """Reads all files of one group like a naive reader."""
    lines = [f"Content-Usage: {each} n{number}=n" for number, each in enumerate(paths)]
    text = "\n".join(["User-agent: *", "Disallow: /x", *lines])
    assert {int(value[1:-2]) for _, value in said(text, path)} == naive(paths, path)


HEAVY = {
    "short lines": "Content-Usage: a=n\n" * 1000,
    "different lines": "".join(f"Content-Usage: /{n} a{n}=n\n" for n in range(1000)),
    "long paths": f"Content-Usage: /{'a' * 400} a=n\n" * 1000,
    "wildcards": f"Content-Usage: /{'*a' * 200} a=n\n" * 400,
    "long values": "".join(f"Content-Signal: {n}a=yes{',' * 400}\n" for n in range(1000)),
    "many answers": "".join(
        f"Content-Usage: {','.join(f'a{n}-{k}=n' for k in range(40))}\n" for n in range(1000)
    ),
    "licenses": "".join(f"License: https://l.example/{n}{'a' * 400}\n" for n in range(1000)),
}


@pytest.mark.parametrize("lines", HEAVY.values(), ids=HEAVY)
def test_a_file_counts_for_the_memory_that_it_takes(lines: str) -> None:
    """About: those that a process knows are bounded by that count."""
    text = f"User-agent: *\nDisallow: /x\n{lines}".encode()
    rules_in(text)  # Values that are cached are counted elsewhere.
    tracemalloc.start()
    try:
        found = rules_in(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found
    assert taken < 60 * found.size


def test_only_so_many_lines_are_kept() -> None:
    """A thousand; and a file that would take long to compare counts as heavy."""
    text = "User-agent: *\n" + "Content-Usage: / a=n\n" * 1000 + "Content-Usage: /page b=n\n"
    assert said(text) == [("content-usage", "a=n")]
    heavy = rules("User-agent: *\n" + f"Content-Usage: /{'*/' * 200} a=n\n" * 100)
    assert not heavy.is_light
