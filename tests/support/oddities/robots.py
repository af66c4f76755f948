"""robots.txt as people, programs and attackers write it (RFC 9309, and google/robotstxt)."""

from __future__ import annotations

import codecs
import gzip

from crawlstream_chaos.scripted_site import Answer
from support.oddities.case import ROBOTS, Case, Said, answer, links, moved, text

AGENT = "oddbot/1.0 (+https://example.com/bot)"
"""User agent of the crawlers."""


def _says(name: str, robots: Said, forbidden: str = "", allowed: str = "", **more: object) -> Case:
    """Make a case of links that a file forbids, and of others."""
    no, yes = forbidden.split(), allowed.split()
    said = text(robots) if isinstance(robots, str | bytes) else robots
    pages = {"/": links(*(path.replace("&", "&amp;") for path in (*no, *yes))), ROBOTS: said}
    return Case(f"robots: {name}", pages, yes, failed=dict.fromkeys(no, "robots"), **more)  # type: ignore[arg-type]


def _closed(name: str, robots: Said, *asked: str, **more: object) -> Case:
    """Make a case of a file that forbids all of its site."""
    said = text(robots) if isinstance(robots, str | bytes) else robots
    return Case(f"robots: {name}", {ROBOTS: said}, asked, failed={"/": "robots"}, **more)  # type: ignore[arg-type]


_ANY = "User-agent: *\n"
_OURS = "User-agent: oddbot\n"
_HTML = "<!doctype html><script>/*" + "x" * 270_000 + "*/</script>" + "<a href='*'>\n" * 2000
_PACKED = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
_BEHIND_THE_CAP = _ANY + "Disallow: /a\n" + "# comment\n" * 52_000 + "Disallow: /b\n"

ROBOTS_TXT = [
    _says(
        "queries",
        _ANY + "Disallow: /s?sort=\nDisallow: /*?print$\nDisallow: /w?wsdl",
        "/s?sort=1&q=a /doc?print /w?wsdl",
        "/s?q=b&sort=2 /doc?print=1 /doc?q&print /w?wsdx",
    ),
    _says(
        "the longest rule, and Allow where two are equal",
        _ANY + "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nAllow: /x\nDisallow: /x",
        "/a /a/c /a/b/c",
        "/a/b /a/b/d /x",
    ),
    _says(
        "wildcards and ends",
        _ANY + "Disallow: /*.odd$\nDisallow: /p*q*r\nDisallow: /e$\nDisallow: /d$x\nDisallow: /**z",
        "/x/y.odd /paqbr /e /d$x /az",
        "/x.odd?a /prq /e/ /e?a /d",
    ),
    _says("an empty rule", _ANY + "Disallow:\nDisallow: # nothing", "", "/a"),
    _says(
        "escapes",
        _ANY + "Disallow: /~joe/\nDisallow: /%7ejane/\nDisallow: /a%3cd\nDisallow: /x%2fy\n"
        "Disallow: /ü\nDisallow: /%E6%97%a5",
        "/%7Ejoe/1 /~jane/ /a%3Cd /x%2Fy /%C3%BC /%E6%97%A5",
        "/x/y /u",
    ),
    _says(
        "escaped wildcards, parameters and blanks",
        _ANY + "Disallow: /a%2Ab\nDisallow: /c%24\nDisallow: /d;e\nDisallow: /f g\nDisallow: /h+i",
        "/a*b /c$ /d;e=1 /f%20g /h+i",
        "/axb /c /d /f /h%20i",
    ),
    _says(
        "lengths of rules with wildcards",
        _ANY + "Allow: /p\nDisallow: /p*\nDisallow: /*.htm\nAllow: /page\nDisallow: /x**$",
        "/p /pa /q.htm /page.htm /xyz",
        "/page.txt /y",
    ),
    _says(
        "octets that are no UTF-8",
        b"User-agent: *\nDisallow: /soci\xe9t\xe9/\nDisallow: /\xe9\n",
        "/soci%E9t%E9/x /%E9a",
        "/about /soci",
    ),
    _says("a byte order mark", codecs.BOM_UTF8 + b"User-agent: *\nDisallow: /a\n", "/a", "/b"),
    _says(
        "line ends",
        "User-agent: *\rDisallow: /a\r\n\r\nDisallow: /b\r\r\nDisallow: /c\u2028/d\n",
        "/a /b",
        "/d",
    ),
    _says(
        "how people write fields",
        "  USER-AGENT :*\n\tdisallow:/a\nDisallow : /b # x\nDISALLOW:   /c\t\n"
        "Dissallow: /d\nDisallow /e\nUseragent: other\nDisallow: /",
        "/a /b /c /d /e",
        "/f",
    ),
    _says("rules before any group", "Disallow: /\n" + _OURS + "Disallow: /a", "/a", "/b"),
    _says(
        "several groups of one agent",
        _OURS + "Disallow: /a\n\n" + _ANY + "Disallow: /\n\nUser-agent: ODDBOT\nDisallow: /b",
        "/a /b",
        "/c",
    ),
    _says(
        "several agents of one group",
        "User-agent: other\nUser-agent: oddbot\n\n# x\nDisallow: /a\nUser-agent: *\nDisallow: /",
        "/a",
        "/b",
    ),
    _says(
        "the product token",
        "User-agent: oddbot/9.9 (x)\nDisallow: /a\n\n" + _ANY + "Disallow: /",
        "/a",
        "/b",
    ),
    _says(
        "tokens that are not ours",
        "User-agent: odd\nDisallow: /\n\nUser-agent: oddbots\nDisallow: /\n\n"
        "User-agent: bot\nDisallow: /\n\nUser-agent: https\nDisallow: /\n\n"
        + _ANY
        + "Disallow: /a",
        "/a",
        "/b",
    ),
    _closed(
        "words of the contact page",
        "User-agent: example\nUser-agent: bot\nAllow: /\n\n" + _ANY + "Disallow: /",
    ),
    _closed(
        "records of other kinds",
        _OURS + "Noindex: /x\nRequest-rate: 1/5\nSitemap: http://x/s.xml\n"
        "User-agent: other\nHost: x\nDisallow: /",
    ),
    _closed("rules that everybody breaks in the same way", "User-Agent: *\nDisallow: *"),
    _says("rules that begin with no slash", _ANY + "Disallow: a\nDisallow: */b", "/b /x/b", "/a"),
    _says("/robots.txt is always allowed", _OURS + "Disallow: /r", "/r", "/s /robots.txt"),
    _says("the front page alone", _ANY + "Disallow: /\nAllow: /$", "/a /?a"),
    _says(
        "letter case, whole addresses, agents without a name",
        _ANY + "Disallow: /A\nDisallow: http://{at}/b\nUser-agent:\nDisallow: /",
        "/A",
        "/a /b",
    ),
    _says(
        "comments and control characters",
        _ANY + "Disallow: /a#b\nDisallow: /c\x00d\n#\x85Disallow: /e\n",
        "/a",
        "/c /e",
    ),
    _says("an error page", answer(_HTML), "", "/a"),
    _says("nothing", text(""), "", "/a"),
    _says("no content", answer("", 204), "", "/a"),
    _says("not for us", answer("Disallow: /", 403), "", "/a"),
    _says(
        "not there, in a coding that cannot be read",
        answer("x", 404, Content_Encoding="gzip"),
        "",
        "/a",
    ),
    _says("in UTF-16", text("\ufeffUser-agent: *\nDisallow: /a".encode("utf-16-le")), "", "/a"),
    _closed("in gzip", Answer(gzip.compress(b"User-agent: *\nDisallow: /"), headers=_PACKED)),
    _says("longer than RFC 9309 wants it read", text(_BEHIND_THE_CAP), "/a", "/b"),
    _closed("longer than is read at all", text(_ANY + "Disallow: /a\n" + "# comment\n" * 220_000)),
    Case(
        "robots: moved on its site",
        {
            "/": links("/a", "/b"),
            ROBOTS: moved("/r.txt", 301),
            "/r.txt": text(_ANY + "Disallow: /a"),
        },
        ["/r.txt", "/b"],
        failed={"/a": "robots"},
    ),
    Case(
        "robots: moved to another site",
        {ROBOTS: moved("http://{other}/r.txt", 301), "other:/r.txt": text(_ANY + "Disallow: /")},
        ["other:/r.txt"],
        failed={"/": "robots"},
    ),
    Case(
        "robots: moves without end",
        {
            "/": links("/a"),
            ROBOTS: moved("/1"),
            "/1": moved("/2"),
            "/2": moved("/3"),
            "/3": moved("/4"),
            "/4": moved("/5"),
            "/5": moved("/6"),
            "/6": text(_ANY + "Disallow: /"),
        },
        ["/1", "/2", "/3", "/4", "/5", "/a"],
    ),
    Case("robots: moves out of the web", {"/": links("/a"), ROBOTS: moved("tel:1")}, ["/a"]),
    Case(
        "robots: of the host that a redirect leads to",
        {"/": moved("http://{other}/a"), "other:/robots.txt": text(_ANY + "Disallow: /")},
        ["other:/robots.txt"],
        failed={"other:/a": "robots"},
    ),
]
