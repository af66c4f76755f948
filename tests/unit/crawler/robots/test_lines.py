"""Rules of robots.txt are read as RFC 9309 says, whatever stands between them."""

from __future__ import annotations

import pytest

from crawling.robots.rules import rules_in

US = "oddbot/1.0 (+https://example.com/bot)"


def may(text: str | bytes, path: str, agent: str = US) -> bool:
    """Return whether a client may fetch a path of a site with this robots.txt."""
    rules = rules_in(text if isinstance(text, bytes) else text.encode())
    return rules is None or rules.allow(f"http://a.example{path}", agent)


@pytest.mark.parametrize(
    ("agent", "is_ours"),
    [
        ("oddbot", True),
        ("OddBot", True),
        ("oddbot/2.0", True),
        ("oddbot (the crawler)", True),
        ("odd", False),
        ("oddbot-images", False),
        ("myoddbot", False),
        ("bot", False),
        ("example", False),
        ("https", False),
        ("1", False),
        ("", False),
        ("?", False),
    ],
)
def test_a_group_is_ours_by_the_whole_product_token(agent: str, *, is_ours: bool) -> None:
    """Compares tokens whole and without case; words of the header behind the token do not count."""
    text = f"User-agent: {agent}\nDisallow: /theirs\n\nUser-agent: *\nDisallow: /all\n"
    assert may(text, "/theirs") is not is_ours
    assert may(text, "/all") is is_ours


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Mozilla/5.0 (compatible; oddbot/1.0; +https://example.com)", "oddbot"),
        ("Mozilla/5.0 (X11; Linux) AppleWebKit/537 (compatible; no)", "mozilla"),
        ("oddbot", "oddbot"),
        ("360Spider/1.0", "360spider"),
    ],
)
def test_a_client_is_known_by_its_product_token(header: str, token: str) -> None:
    """Takes the token at the beginning, or the one that a header in a browser's form names."""
    assert not may(f"User-agent: {token}\nDisallow: /", "/x", header)


@pytest.mark.parametrize(
    "between",
    [
        "Noindex: /x",
        "Request-rate: 1/5",
        "Content-Signal: search=yes",
        "Sitemap: http://a.example/s.xml",
        "Host: a.example",
        "Crawl-delay: 5",
        "nonsense",
        ": :",
        "# comment",
        "",
    ],
)
def test_other_records_do_not_end_a_group(between: str) -> None:
    """Applies the rules of a group to all its agents, whatever stands between them."""
    text = f"User-agent: oddbot\n{between}\nUser-agent: other\n{between}\nDisallow: /x\n"
    assert not may(text, "/x")
    assert not may(text, "/x", "other/1")
    assert may(text, "/x", "third/1")


def test_a_delay_is_for_the_agents_above_it() -> None:
    """Keeps a delay that stands between agents, between rules and behind them."""
    text = (
        b"User-agent: a\nCrawl-delay: 5\nUser-agent: b\nDisallow: /x\nCrawl-delay: 7\nAllow: /x/y"
    )
    rules = rules_in(text)
    assert rules
    assert [rules.crawl_delay_ms(each) for each in ("a/1", "b/1", "c/1")] == [7000, 7000, 0]
    assert not rules.allow("http://a.example/x", "a/1")
    assert rules.allow("http://a.example/x/y", "b/1")


def test_a_group_without_rules_allows_its_agent_everything() -> None:
    """Does not fall back to the rules for all others."""
    assert may("User-agent: *\nDisallow: /\n\nUser-agent: oddbot\n", "/x")
    assert may("User-agent: *\nDisallow: /\n\nUser-agent: oddbot\nDisallow:\n", "/x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Disallow: /",
        "<html><script>" + "a*" * 300_000 + "</script></html>",
        "\n".join("Disallow: /*" + "*x" * 100 for _ in range(5000)),
        "user-agent * disallow /",
    ],
)
def test_a_text_without_a_group_forbids_nothing(text: str) -> None:
    """Ignores what is in no group, however much it is."""
    assert may(text, "/x")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (b"/soci\xe9t\xe9/", "/soci%E9t%E9/x"),
        (b"/\xe9", "/%E9"),
        ("/é".encode(), "/%C3%A9"),
        (b"/%c3%a9", "/%C3%A9"),
        (b"/%C3%A9", "/%c3%a9"),
        (b"/search?sort=", "/search?sort=1&q=a"),
        (b"/*?print$", "/doc?print"),
        (b"/index.php?/admin", "/index.php?/admin/x"),
        (b"/a b", "/a%20b"),
        (b"/x # all of it", "/x"),
        (b"/a\x0bb", "/a%0Bb"),
    ],
)
def test_a_rule_is_compared_octet_by_octet(rule: bytes, path: str) -> None:
    """Percent-encodes characters beyond ASCII, and forbids what the rule names and nothing more."""
    text = b"\xef\xbb\xbfUser-agent: *\rDisallow: " + rule + b"\r\n"
    assert not may(text, path)
    assert may(text, "/")
    assert may(text, "/other")


@pytest.mark.parametrize("kind", ["?", "&", "=", "+", ";", ",", "@", ":", "(", "!", "[", "%", "#"])
def test_an_escape_of_a_reserved_character_is_not_that_character(kind: str) -> None:
    """Forbids what is written so, in either case, and leaves what is written otherwise."""
    escaped = f"%{ord(kind):02X}"
    for rule in (f"/q{escaped}x", f"/*q{escaped}x", f"/q{escaped.lower()}x$"):
        text = f"User-agent: *\nDisallow: {rule}"
        assert not may(text, f"/q{escaped}x")
        assert not may(text, f"/q{escaped.lower()}x")
        assert may(text, f"/q{kind}x")
        assert may(text, f"/q%25{escaped[1:]}x")
    if kind not in "%#":
        assert not may(f"User-agent: *\nDisallow: /q{kind}x", f"/q{kind}x")
        assert may(f"User-agent: *\nDisallow: /q{kind}x", f"/q{escaped}x")


def test_signs_of_rules_are_meant_themselves_where_they_are_escaped() -> None:
    """Reads ``%24`` and ``%2A`` in a rule as plain signs, as RFC 9309 says."""
    for sign, escaped in (("$", "%24"), ("*", "%2A")):
        text = f"User-agent: *\nDisallow: /q{escaped}x"
        assert not may(text, f"/q{sign}x")
        assert not may(text, f"/q{escaped}x")
        assert may(text, "/qax")


def test_only_line_feeds_and_carriage_returns_end_a_line() -> None:
    """Takes other separators of Unicode for part of the comment or rule that they stand in."""
    for mark in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
        assert may(f"User-agent: *\n# see{mark}Disallow: /\nDisallow: /x", "/y")


@pytest.mark.parametrize("word", ["Dissallow", "Disalow", "diasllow", "DISALLAW"])
def test_common_misspellings_forbid(word: str) -> None:
    """Reads a rule as its author meant it."""
    assert not may(f"Useragent: *\n{word}: /x", "/x")
    assert not may("User agent *\nDisallow /x", "/x")
