"""Texts for users are plain English: help, settings, metrics, errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest
import yaml

from crawlstream_cli.dev.changed import PACKAGES
from support.reference import DOCS, PAGES

ROOT = DOCS.parent
HOUSES = tuple(PACKAGES)

BETTER: Mapping[str, str] = {
    r"(?<!there )\b(is|are) no (?!longer\b|more\b)\w+": "is not a …",
    r"\bso (many|often)\b": "the number itself: 'number of …', 'this many', 'up to N'",
    r"\bwhat (waits|waited|is waiting|comes|came|runs|drains)\b": "queued pages, requests, …",
    r"\banew\b": "again, restart, recreate",
    r"\bfor ever\b": "without a limit, permanently",
    r"\bby name\b": "the name, or the reason code, itself",
    r"\bin (other|the) hands\b|\bin the workers' hands\b": "leased by another worker, in flight",
    r"\bunder way\b": "running (crawls), in flight (pages), in progress",
    r"\b(nobody|somebody|someone|whoever)\b": "the actor: another user, an operator, a client, …",
    r"\ba defect\b": "a bug",
    r"\b(hits|pages|requests|responses|objects?|records?|one|JSON) an? (second|hour|line)\b": "per",
    r"\b(is|are) heard of\b": "is running, has a heartbeat",
    r"\b(is|are) remembered\b": "is known, was found",
    r"\bthe books\b": "the ledger",
    r"\b(is|are) let (in|out)\b": "admitted, refused",
    r"\bwe\b|\bours\b|\bour\b": "the thing itself: user name, client certificate, crawlstream, …",
}
"""Phrases that a reader has to translate, and what says the same at once."""

OPERATED_BY = (
    "operations.md",
    "glossary.md",
    "deploying.md",
    "upgrading.md",
    "settings.md",
    "cli.md",
    "metrics.md",
    "wire.md",
    "rest.md",
    "keys.md",
)
"""Pages for people who run a cluster, or write programs that use one."""

RAISED = re.compile(r"(Error|Request|Refused|Unavailable|Conflict|Url|Config|Gap)$")


def faults_of(text: str) -> list[str]:
    """The phrases of ``text`` that are listed, each with its better one; code is left out."""
    words = re.sub(r"`[^`]*`|--\S+|https?://\S+", "", text)
    return [
        f"{found[0]!r} in {text!r}: say {better}"
        for phrase, better in BETTER.items()
        if (found := re.search(phrase, words, re.IGNORECASE))
    ]


@pytest.mark.parametrize("name", PAGES)
def test_help_settings_and_metrics_need_no_translation(name: str) -> None:
    """Every description that is made from the code uses the field's words."""
    lines = (line for line in PAGES[name]().splitlines() if not line.startswith("    "))
    assert not [fault for line in lines for fault in faults_of(line)]


@pytest.mark.parametrize("name", OPERATED_BY)
def test_runbooks_need_no_translation(name: str) -> None:
    """Runbooks are as plain as the alerts that lead to them."""
    lines = (DOCS / name).read_text(encoding="utf-8").splitlines()
    assert not [fault for line in lines for fault in faults_of(line)]


def test_errors_need_no_translation() -> None:
    """Every sentence that is raised says what happened, of what, in the field's words."""
    told = [
        f"{path.relative_to(ROOT)}: {fault}"
        for house in HOUSES
        for path in sorted((ROOT / house).rglob("*.py"))
        for sentence in _raised(ast.parse(path.read_text(encoding="utf-8")))
        for fault in faults_of(sentence)
    ]
    assert not told, "\n".join(told)


OF_A_CHECKOUT = {
    "cli/crawlstream_cli/local/home.py",
    "cli/crawlstream_cli/local/layout.py",
    "cli/crawlstream_cli/machine/install.py",
    "utils/crawlstream/__init__.py",
    "utils/crawlstream/errors.py",
}
"""Modules that mean the script of a checkout, which installs."""


def test_messages_name_the_command_as_it_is_called() -> None:
    """Names commands by `COMMAND` in messages, because an image has no ./crawlstream."""
    literal = {
        f"{path.relative_to(ROOT)}"
        for house in HOUSES
        if house != "chaos"
        for path in sorted((ROOT / house).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and "./crawlstream " in str(node.value)
    }
    assert literal == OF_A_CHECKOUT


def test_alerts_need_no_translation() -> None:
    """The summary of each alert is plain English."""
    file = ROOT / "docker" / "monitoring" / "rules.yml"
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    summaries = [rule["annotations"]["summary"] for group in groups for rule in group["rules"]]
    assert summaries
    assert not [fault for summary in summaries for fault in faults_of(summary)]


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("Who we are.", "user name"),
        ("End after so many records.", "number itself"),
        ("What waits is dropped.", "queued pages"),
        ("512 requests a second", "per"),
        ("the page is in other hands", "leased"),
    ],
)
def test_a_riddle_is_found_with_a_better_phrase(text: str, better: str) -> None:
    """The check itself sees what it lists, and names the way out."""
    (fault,) = faults_of(text)
    assert better in fault


@pytest.mark.parametrize(
    "text",
    [
        "SASL user name.",
        "Only crawls that have not ended (`--under-way`).",
        "there is no topic demo.incoming, and the process is no longer running",
        "Length of the window, in seconds.",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    """Accepts what an engineer would write, and code."""
    assert not faults_of(text)


def _raised(tree: ast.AST) -> Iterator[str]:
    """The literal text of each exception that is raised."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
            continue
        named = node.exc.func
        name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
        if RAISED.search(name):
            yield from _texts(node.exc)


def _texts(call: ast.Call) -> Iterator[str]:
    """Each literal of a call as one text, ``{…}`` for what is put into it."""
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value
        elif isinstance(argument, ast.JoinedStr):
            parts = (
                str(part.value) if isinstance(part, ast.Constant) else "{…}"
                for part in argument.values
            )
            yield "".join(parts)
