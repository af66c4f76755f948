"""The media type of a response is read from its headers as the Fetch Standard says."""

from __future__ import annotations

import pytest
from scrapy.http import Headers, HtmlResponse, Response, XmlResponse

from crawling.links.extract import links_of
from crawling.response.media_type import class_of, media_type
from crawlstream.model.crawl import Profile


@pytest.mark.parametrize(
    ("headers", "essence", "charset"),
    [
        ([], "", ""),
        (["text/html"], "text/html", ""),
        (["Text/HTML ; Charset=GBK"], "text/html", "GBK"),
        (['text/html; charset="gbk"'], "text/html", "gbk"),
        (['text/html; a="x;charset=koi8-r"; charset=gbk'], "text/html", "gbk"),
        (["text/html;charset=gbk;charset=koi8-r"], "text/html", "gbk"),
        (["text/html; charset= gbk "], "text/html", "gbk"),
        (["text/html; charset=iso_8859-2:1987"], "text/html", "iso_8859-2:1987"),
        (["text/html, text/html; charset=utf-8"], "text/html", "utf-8"),
        (["text/html;charset=gbk", "text/plain"], "text/plain", ""),
        (["text/html;charset=gbk", "text/plain", "text/html"], "text/html", ""),
        (["text/html;charset=gbk", "x/x", "text/html;x=1"], "text/html", ""),
        (["text/html;charset=gbk", "*/*"], "text/html", "gbk"),
        (["text/html;charset=gbk", "nonsense"], "text/html", "gbk"),
        (["text/plain", "", "text/html; charset=gbk"], "text/html", "gbk"),
        (['text/html;x=",text/plain"'], "text/html", ""),
        (['text/html;"', "text/plain"], "text/html", ""),
        (["nonsense"], "", ""),
        (["*/*"], "", ""),
        (["text/"], "", ""),
        (["image/svg+xml"], "image/svg+xml", ""),
    ],
)
def test_the_last_type_counts_with_the_charset_of_its_kind(
    headers: list[str], essence: str, charset: str
) -> None:
    """Joins several headers, skips values that are not types, keeps a charset for one type."""
    assert media_type(Headers({"Content-Type": headers})) == (essence, charset)


XHTML = (
    b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x.dtd">\n'
    b'<!-- > --><html lang="de" xmlns="http://www.w3.org/1999/xhtml"><script src="x"/><div/>'
    b'<a name="x"/><a href="/1">1</a></html>'
)


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("application/xml", XHTML, HtmlResponse),
        ("text/xml; charset=utf-8", b"\xef\xbb\xbf" + XHTML, HtmlResponse),
        ("application/xhtml+xml", XHTML, HtmlResponse),
        ("text/xml", XHTML.replace(b"1999/xhtml", b"2000/svg"), XmlResponse),
        ("text/xml", b"<page>" + XHTML, XmlResponse),
        ("text/xml", b"<!-- " * 10_000 + XHTML, XmlResponse),
        ("application/rss+xml", b"<rss/>", XmlResponse),
    ],
)
def test_xhtml_is_a_page_whatever_its_server_calls_it(
    kind: str, body: bytes, expected: type[Response]
) -> None:
    """Follows links of XHTML, whatever type its server names; other XML has no links."""
    headers, url = Headers({"Content-Type": kind}), "http://a.example/"
    found = class_of(headers, url, body)(url, body=body, headers=headers)
    assert type(found) is expected
    links, _refused = links_of(found, Profile())
    assert links == ([("http://a.example/1", "1")] if expected is HtmlResponse else [])
