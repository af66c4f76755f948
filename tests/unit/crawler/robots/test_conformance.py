"""RFC 9309, by headings under which other readers of robots.txt are tested; see also test_lines."""

from __future__ import annotations

import pytest

from crawling.robots.rules import rules_in

OURS = "oddbot/1.0"


@pytest.mark.parametrize(
    ("text", "allowed", "forbidden"),
    [
        pytest.param("", "/ /x", "", id="empty file"),
        pytest.param("foo: bar\n/x\nDisallow /x\n", "/x", "", id="no group"),
        pytest.param("user-agent oddbot\ndisallow /x", "/y", "/x", id="no colons"),
        pytest.param("USER-AGENT: oddbot\nDISALLOW: /x", "/X /y", "/x", id="case of keys"),
        pytest.param("User-agent: oddbot\n\n\nDisallow: /x", "/y", "/x", id="blank lines"),
        pytest.param("User-agent:oddbot\rDisallow:/x\r", "/y", "/x", id="carriage returns"),
        pytest.param("User-agent: oddbot\r\nDisallow: /x\r\n", "/y", "/x", id="CRLF"),
        pytest.param("\ufeffUser-agent: oddbot\nDisallow: /x", "/y", "/x", id="byte order mark"),
        pytest.param("User-agent: oddbot # us\nDisallow: /x # no\n", "/y", "/x", id="comments"),
        pytest.param("User-agent: oddbot\nDisallow:", "/ /x", "", id="empty rule"),
        pytest.param("User-agent: oddbot\nDisallow: /\nAllow: /", "/ /x", "", id="tie allows"),
        pytest.param(
            "User-agent: oddbot\nAllow: /a\nDisallow: /a/b\nAllow: /a/b/c\n",
            "/a /a/c /a/b/c",
            "/a/b /a/b/d",
            id="longest match, whatever the order",
        ),
        pytest.param("User-agent: *\nDisallow: /\nAllow: /$", "/", "/x /?x", id="end of a path"),
        pytest.param("User-agent: *\nDisallow: /*.gif$", "/a.gif?x", "/a.gif", id="wildcard, end"),
        pytest.param("User-agent: *\nDisallow: /a*b*c", "/a/c/b", "/a/b/xc/d", id="wildcards"),
        pytest.param("User-agent: *\nDisallow: *x", "/y", "/x /a/x", id="begins with a wildcard"),
        pytest.param("User-agent: *\nDisallow: /a$b", "/a", "/a$b/c", id="dollar inside"),
        pytest.param("User-agent: *\nDisallow: /é", "/e", "/%C3%A9", id="beyond ASCII"),
        pytest.param("User-agent: *\nDisallow: /%c3%a9", "/e", "/%C3%A9 /%c3%a9", id="escapes"),
        pytest.param("User-agent: *\nDisallow: /%78", "/y", "/x /%78", id="needless escapes"),
        pytest.param("User-agent: *\nDisallow: /a%2fb", "/a/b", "/a%2Fb", id="escaped slash"),
        pytest.param("User-agent: *\nDisallow: /\nUser-agent: oddbot\n", "/", "", id="ours first"),
        pytest.param("User-agent: *\nDisallow: /x\nUser-agent: odd\n", "/y", "/x", id="others'"),
        pytest.param("User-agent: *\nDisallow: /x?", "/x /x/y", "/x?y", id="query"),
        pytest.param(
            "User-agent: oddbot\nDisallow: /x\nUser-agent: b\nAllow: /\n"
            "User-agent: b\nUser-agent: OddBot\nDisallow: /y\n",
            "/z",
            "/x /y",
            id="groups of one agent merge",
        ),
        pytest.param(
            "User-agent: oddbot\nSitemap: http://a.example/s\nUser-agent: b\nDisallow: /x\n",
            "/y",
            "/x",
            id="other records do not interfere",
        ),
        pytest.param(f"User-agent: *\nDisallow: /{'a' * 9000}", "/a", f"/{'a' * 9000}/", id="long"),
    ],
)
def test_files_mean_what_the_standard_says(text: str, allowed: str, forbidden: str) -> None:
    """Allows and forbids these paths, and no others."""
    rules = rules_in(text.encode())
    paths = [*allowed.split(), *forbidden.split()]
    may = [path for path in paths if not rules or rules.allow(f"http://a.example{path}", OURS)]
    assert may == allowed.split()
