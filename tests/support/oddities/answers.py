"""HTTP: statuses, redirects, cookies, codings and bodies (RFC 9110, RFC 6265, Fetch Standard)."""

from __future__ import annotations

import gzip
import zlib

import brotli  # type: ignore[import-untyped]
from backports import zstd

from crawlstream_chaos.scripted_site import Answer
from support.oddities.case import Case, answer, links, moved


def _leads(name: str, location: str, *asked: str, **more: object) -> Case:
    return Case(f"Location: {name}", {"/": moved(location)}, asked, **more)  # type: ignore[arg-type]


def _refresh(
    content: str, *asked: str, tag: str = "<meta http-equiv=refresh content='{}'>"
) -> Case:
    page = tag.replace("{}", content) + links("/link")
    found = asked or ("/link",)
    return Case(f"refresh: {content or tag}", {"/": page}, found)


def _cookie(name: str, *said: str, sent: str = "", to: str = "/a/b") -> Case:
    more = [("Set-Cookie", each) for each in said]
    first = Answer(status=302, headers={"Location": to}, more_headers=more)
    cookies = {to: sent} if sent else {}
    return Case(f"cookies: {name}", {"/": first}, [to], cookies=cookies)


def _packed(body: bytes, coding: str) -> Answer:
    return answer(body, Content_Encoding=coding)


_PAGE = links("/1").encode() + b"<!-- " + b"x" * 3000 + b" -->"
_GZIP = gzip.compress(_PAGE)

ANSWERS = [
    _leads("beside a body that cannot be read", "/a", "/a"),
    *(
        Case(
            f"{status} beside a body that cannot be read",
            {"/": answer("plain", status, Location="/a", Content_Encoding="gzip")},
            ["/a"],
        )
        for status in (301, 302, 303, 307, 308)
    ),
    Case(
        "a status that passes beside a body that cannot be read",
        {"/": links("/a"), "/a": answer("x", 503, Content_Encoding="br")},
        ["/a", "/a"],
        failed={"/a": "bad_encoding"},
    ),
    *(
        Case(f"{status} leads nowhere", {"/": answer(links("/a"), status, Location="/no")}, ["/a"])
        for status in (200, 201, 300, 305, 306, 309)
    ),
    _leads("spaces around", "  /a  ", "/a"),
    _leads("a query alone", "?a=b;c", "/?a=b;c"),
    _leads("a fragment", "/a#b?c", "/a"),
    _leads("no scheme", "//{other}/a", "other:/robots.txt", "other:/a"),
    _leads("letter case", "HTTP://{at}/A", "/A"),
    _leads("no slashes", "http:a", "/a"),
    _leads("many slashes", "http:////{at}/a", "/a"),
    _leads("backslashes", r"\a\b", "/a/b"),
    _leads("octets of UTF-8", "/\xc3\xbc?\xc3\xbc", "/%C3%BC?%C3%BC"),
    _leads("octets of Latin-1", "/\xfc?\xfc", "/%FC?%FC"),
    _leads("escapes", "/%7eu/%GG?%zz", "/%7eu/%GG?%zz"),
    _leads("an escaped scheme", "http%3A//h.example/", "/http%3A//h.example/"),
    _leads("blanks within", "/a b\tc", "/a%20bc"),
    _leads("a list", "/a, /b", "/a,%20/b"),
    _leads("angle brackets", "</a>", "/%3C/a%3E"),
    _leads("control characters", "/a\x01b", "/a%01b"),
    _leads("an address that is too long", "/" + "x" * 3000),
    _leads("quotes", '"/a"', "/%22/a%22"),
    _leads("dots", "/a/../b/./c/..", "/b/"),
    *(
        _leads(f"to {to}", to)
        for to in (
            "tel:5551",
            "javascript:1",
            "ftp://{at}/",
            "mailto:a@b",
            "http://",
            "http://[",
            "//",
            "about:blank",
            "data:text/html,x",
            "",
        )
    ),
    Case(
        "Location twice the same",
        {"/": Answer(status=302, more_headers=[("Location", "/a")] * 2)},
        ["/a"],
    ),
    Case(
        "a redirect with links",
        {"/": Answer(links("/no").encode(), 302, {"Location": "/a"})},
        ["/a"],
    ),
    Case(
        "ten redirects",
        {
            "/": moved("/1"),
            **{f"/{n}": moved(f"/{n + 1}") for n in range(1, 10)},
            "/10": links("/end"),
        },
        [*(f"/{n}" for n in range(1, 11)), "/end"],
    ),
    Case(
        "a redirect to itself",
        {"/": links("/a"), "/a": moved("/a")},
        ["/a"],
        failed={"/a": "redirect_loop"},
    ),
]

REFRESHES = [
    *(
        _refresh(content, "/a")
        for content in (
            "0; url = /a",
            "0; /a",
            "0,url=/a",
            "0 url=/a",
            "0;URL=/a",
            '0;url="/a"',
            '0;url="/a',
            "0;url=/a ",
            " 0 ;\turl=\n/a",
            "0.5;url=/a",
            ".5;url=/a",
            '0; url="/a"b',
            "5;a",
            "0;url=a",
            "00;url=\\a",
            "0;url=http:/a",
            "0;url=/a#b",
        )
    ),
    *(
        _refresh(content)
        for content in (
            "0",
            "0;",
            "0;url=",
            "-1;url=/no",
            "x;url=/no",
            "0;url=tel:1",
            "0;url=javascript:x",
            "0;url=/",
            "999;url=/no",
            "0url=/no",
            "",
        )
    ),
    _refresh("", "/a", tag="<META HTTP-EQUIV='REFRESH' CONTENT='0;url=/a'>"),
    _refresh("", tag="<noscript><meta http-equiv=refresh content='0;url=/no'></noscript>"),
    _refresh("", tag="<!-- <meta http-equiv=refresh content='0;url=/no'> -->"),
    _refresh("", tag="<meta name=refresh content='0;url=/no'>"),
    _refresh(
        "", "/a", tag=f"<style>{'x' * 6000}</style><meta http-equiv=refresh content='0;url=/a'>"
    ),
    _refresh("", "/a", tag="<base href=/b/><meta http-equiv=refresh content='0;url=../a'>"),
    _refresh(
        "", "/a", tag="<meta http-equiv=refresh content=x><meta http-equiv=refresh content='0;/a'>"
    ),
    _refresh("", "/a", tag="<body><p>x<meta http-equiv=refresh content='0;/a'>"),
]

COOKIES = [
    _cookie("trimmed", " sid = 7 ; Path=/", sent="sid=7"),
    _cookie("octets", "n=\xe9\xff", sent="n=\xe9\xff"),
    _cookie(
        "quotes and signs",
        'q="a b"; Path=/',
        "e=a=b",
        "c=a,b",
        's="a;b"',
        "A=1",
        "a=2",
        "p=1; Path=x",
        sent='q="a b"; e=a=b; c=a,b; s="a; A=1; a=2; p=1',
    ),
    _cookie(
        "of others",
        "a=1; Path=/elsewhere",
        "b=2; Domain=other.example",
        "c=3; Domain=0.0.1",
        "=d",
        "e",
        "f=6; Secure",
    ),
    _cookie("of this host", "a=1; Domain={host}", sent="a=1"),
    _cookie(
        "deleted and set again",
        "a=1",
        "a=; Max-Age=0",
        "b=1",
        "b=2",
        "c=1; Max-Age=-1",
        "d=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "e=1; Expires=Wed, 31-Dec-2098 23:59:59 GMT",
        sent="b=2; e=1",
    ),
    _cookie(
        "longer paths first",
        "a=1; Path=/",
        "b=2; Path=/a/b",
        "c=3; Path=/a",
        "d=4; path=/a/bc",
        "e=5; PATH = /a/",
        sent="b=2; e=5; c=3; a=1",
    ),
    Case(
        "cookies: a wall",
        {
            "/": links("/p"),
            "/p": lambda visit: (
                answer(links("/in"))
                if visit.headers.get("cookie") == "ok=1"
                else moved("/p", Set_Cookie="ok=1")
            ),
        },
        ["/p", "/p", "/in"],
        cookies={"/p": "ok=1"},
    ),
    Case(
        "cookies: for no other host",
        {"/": moved("http://{other}/a", Set_Cookie="a=1")},
        ["other:/robots.txt", "other:/a"],
    ),
    Case("cookies: not of a page", {"/": answer(links("/a"), Set_Cookie="a=1")}, ["/a"]),
]

BODIES = [
    *(
        Case(f"coding: {coding}", {"/": _packed(body, coding)}, ["/1"])
        for coding, body in (
            ("gzip", _GZIP),
            ("x-gzip", _GZIP),
            ("GZIP", _GZIP),
            ("gzip, identity", _GZIP),
            ("identity, gzip", _GZIP),
            ("identity", _PAGE),
            ("utf-8", _PAGE),
            ("none", _PAGE),
            ("", _PAGE),
            ("deflate", zlib.compress(_PAGE)),
            ("deflate", zlib.compress(_PAGE)[2:-4]),
            ("br", brotli.compress(_PAGE)),
            ("zstd", zstd.compress(_PAGE)),
            ("gzip, gzip", gzip.compress(_GZIP)),
            (" gzip ,", _GZIP),
            ("gzip", _GZIP + b"\0\0"),
        )
    ),
    *(
        Case(f"coding: {coding}, broken off", {"/": _packed(body, coding)}, ["/1"])
        for coding, body in (
            ("gzip", _GZIP[:-9]),
            ("deflate", zlib.compress(_PAGE)[:-5]),
        )
    ),
    *(
        Case(
            f"coding: {coding} and a plain body",
            {"/": links("/p"), "/p": _packed(_PAGE, coding)},
            ["/p"],
            failed={"/p": "bad_encoding"},
        )
        for coding in ("gzip", "br", "zstd")
    ),
    Case(
        "a body that is shorter than its length",
        {"/": links("/p"), "/p": Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort")},
        ["/p", "/p"],
        failed={"/p": "connection_lost"},
    ),
    Case(
        "a body without a length",
        {
            "/": Answer(
                raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + links("/1").encode()
            )
        },
        ["/1"],
    ),
    Case(
        "chunks",
        {
            "/": Answer(
                raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked"
                b"\r\n\r\n9;x=y\r\n<a href=/\r\n3\r\n1>x\r\n0\r\nX: y\r\n\r\n"
            )
        },
        ["/1"],
    ),
    Case(
        "informational answers first",
        {
            "/": Answer(
                raw=b"HTTP/1.1 103 Early\r\nLink: </no>\r\n\r\nHTTP/1.1 100 C"
                b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                b"Content-Length: 12\r\n\r\n<a href=/1>x"
            )
        },
        ["/1"],
    ),
    Case(
        "no reason phrase and lines that end in LF only",
        {"/": Answer(raw=b"HTTP/1.0 200\nContent-Type: text/html\n\n<a href=/1>x")},
        ["/1"],
    ),
]
