"""Rules of robots.txt as another project reads them: crawler-commons, the reader of Apache Nutch.

Maven fetches it. Files are made at random, the same ones in each run, and dense: most lines are
rules, and most groups are for the agents in question.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from crawling.robots.rules import rules_in
from referees.java import answers

PROGRAM = Path(__file__).with_name("robots") / "RobotsReferee.java"
SITE = "http://a.example"
FILES, URLS_A_FILE = 3000, 5

AGENTS = ("oddbot", "oddbot", "*", "*", "other", "odd", "OddBot/2.0", "oddbot-images", "*bot", "")
CLIENTS = ("oddbot", "other", "third")
PATTERNS = (
    *("", "", "/", "/", "/*", "/**", "a", "*a", "/a", "/a/", "/a/b", "/ab", "/A", "/a b", "/a*b"),
    *("/a$", "/a*$", "/*/b$", "/a/*/", "/%61", "/a%2Fb", "/é", "/%c3%a9", "/%2A", "/a#c"),
)
PATHS = ("/", "/a", "/a/", "/a/b", "/a/b/", "/ab", "/aXb", "/A", "/%61", "/a%2Fb", "/%C3%A9", "/*")
RULES = ("Disallow", "disallow", "DISALLOW ", "Dissallow", "Disalow", "Allow", "allow")
OTHERS = ("Crawl-delay", "Sitemap", "Request-rate", "Host", "Noindex", "Content-Signal", "nonsense")

DIFFERENT: Sequence[tuple[str, str, bool, str]] = (
    ("Allow: /*?\nDisallow: /abc", "/abc?x", True, "Protego counts an escaped octet as three"),
    ("Disallow: /*?*\nAllow: /*.js", "/a.js?x", False, "Protego counts an escaped octet as three"),
    ("Disallow: /*b$", "/a/b$", False, "Protego takes a dollar at the end of a URL for its end"),
)
"""Rules, a path, whether crawlstream allows it, and why crawler-commons does not agree."""

Case = tuple[str, str, str]
"""Text, client, path."""


def referee(folder: Path, cases: Sequence[Case]) -> Sequence[bool]:
    """Return what crawler-commons allows."""
    lines = (
        f"{client} {SITE}{path} {base64.b64encode(text.encode()).decode()}"
        for text, client, path in cases
    )
    return [answer == "1" for answer in answers(PROGRAM, folder, lines)]


def allowed(case: Case) -> bool:
    """Return what crawlstream allows."""
    text, client, path = case
    rules = rules_in(text.encode())
    return rules is None or rules.allow(SITE + path, f"{client}/1.0")


def line(random: Random) -> str:
    """Return a line of a file."""
    kind = random.randrange(10)
    if kind < 3:
        key, value = (
            random.choice(("User-agent", "user-agent", "USER-AGENT")),
            random.choice(AGENTS),
        )
    elif kind < 8:
        key, value = random.choice(RULES), random.choice(PATTERNS)
    else:
        key, value = random.choice(OTHERS), random.choice(("1", "/a", "search=no"))
    before, colon = random.choice(("", "", " ", "\t")), random.choice((":", ": ", " : ", ":\t"))
    return f"{before}{key}{colon}{value}{random.choice(('', '', '  ', ' # c', '#c'))}"


def file(random: Random) -> str:
    """Return a file that begins with a group."""
    lines = [f"User-agent: {random.choice(('oddbot', '*', 'other'))}"]
    lines += (random.choice((line(random), line(random), "", "# x")) for _ in range(12))
    end = random.choice(("\n", "\r\n", "\r"))
    return random.choice(("", "\ufeff")) + end.join(lines) + random.choice(("", end))


def made_cases() -> Iterator[Case]:
    """Yield files, each with some paths for each client."""
    random = Random(9309)
    for _ in range(FILES):
        text = file(random)
        for client in CLIENTS:
            for path in random.sample(PATHS, URLS_A_FILE):
                yield text, client, path


def test_files_are_read_as_by_crawler_commons(tmp_path: Path) -> None:
    """Allows the same, except what is listed with a reason; and that is different still."""
    listed = [(f"User-agent: *\n{rules}", "oddbot", path) for rules, path, *_ in DIFFERENT]
    made = [*made_cases()]
    theirs = referee(tmp_path, [*listed, *made])
    assert len(theirs) == len(listed) + len(made)
    assert [*map(allowed, listed)] == [ours for _, _, ours, _ in DIFFERENT]
    assert all(ours is not their for (*_, ours, _), their in zip(DIFFERENT, theirs, strict=False))
    pairs = zip(made, theirs[len(listed) :], strict=True)
    assert not [case for case, their in pairs if allowed(case) is not their]
    assert 0.1 < theirs.count(False) / len(theirs) < 0.9
