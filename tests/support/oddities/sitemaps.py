"""Sitemaps and feeds as programs write them (sitemaps.org, RSS, Atom)."""

from __future__ import annotations

import codecs

from support.oddities.case import Case, Said, answer, members, text, urlset, xml

SPIDER = "odd-sitemaps"


def _lists(name: str, said: Said, *asked: str, at: str = "/s.xml", **more: object) -> Case:
    return Case(f"sitemap: {name}", {at: said}, asked, seed=at, spider=SPIDER, **more)  # type: ignore[arg-type]


_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_ABC = urlset("/a", "/b", "/c")
_SPACES = {
    "image": "http://www.google.com/schemas/sitemap-image/1.1",
    "video": "http://www.google.com/schemas/sitemap-video/1.1",
    "xhtml": "http://www.w3.org/1999/xhtml",
}
_NAMES = " ".join(f'xmlns:{name}="{space}"' for name, space in _SPACES.items())

SITEMAPS = [
    _lists("plain", xml(_HEAD + _ABC), "/a", "/b", "/c"),
    _lists(
        "queries",
        xml(urlset("/x?wsdl", "/x?b=2&amp;a=1", "/x?p;q", "/x?c&d", "/%7Eu", "/ü?ü")),
        "/x?wsdl",
        "/x?b=2&a=1",
        "/x?p;q",
        "/x?c&d",
        "/%7Eu",
        "/%C3%BC?%C3%BC",
    ),
    _lists(
        "text",
        text("http://{at}/a\r\nhttp://{at}/b\n\n  http://{at}/c  \nnothing\n/no\n"),
        "/a",
        "/b",
        "/c",
        at="/s.txt",
    ),
    _lists(
        "text with a byte order mark",
        text(codecs.BOM_UTF8 + b"http://{at}/a\rhttp://{at}/b"),
        "/a",
        "/b",
        at="/s.txt",
    ),
    _lists("gzip", members(_ABC), "/a", "/b", "/c", at="/s.xml.gz"),
    _lists(
        "gzip of several members", members(_ABC[:70], _ABC[70:]), "/a", "/b", "/c", at="/s.xml.gz"
    ),
    _lists(
        "text in gzip of several members",
        members("http://{at}/a\nhttp:", "//{at}/b\n"),
        "/a",
        "/b",
        at="/s.txt.gz",
    ),
    _lists("joined", xml(_HEAD + urlset("/a") + "\n" + _HEAD + urlset("/b")), "/a", "/b"),
    _lists(
        "a byte order mark, and lines before it all",
        xml("\ufeff\r\n \n" + _HEAD + _ABC),
        "/a",
        "/b",
        "/c",
    ),
    _lists("warnings before it", xml("<br/><b>Warning</b>: x\n" + _HEAD + _ABC), "/a", "/b", "/c"),
    _lists(
        "a wrong charset",
        xml(_HEAD.replace("UTF-8", "utf-16") + urlset("/a", "/ü")),
        "/a",
        "/%C3%BC",
    ),
    _lists(
        "its own charset",
        xml((_HEAD.replace("UTF-8", "koi8-r") + urlset("/П")).encode("koi8-r")),
        "/%D0%9F",
    ),
    _lists(
        "UTF-16",
        xml(f"\ufeff{_HEAD}<urlset><url><loc>/a</loc></url></urlset>".encode("utf-16-le")),
        "/a",
    ),
    _lists(
        "CDATA, comments and space in an address",
        xml(
            "<urlset><url><loc>\n <![CDATA[http://{at}/a?b&c]]> </loc></url><url><loc>http://{at}/"
            "<!-- x -->d</loc></url><url><loc/></url><url></url></urlset>"
        ),
        "/a?b&c",
        "/d",
    ),
    _lists(
        "prefixes and an old namespace",
        xml(
            '<s:urlset xmlns:s="http://www.google.com/schemas/sitemap/0.84"><s:url><s:loc>http://{at}/a'
            "</s:loc></s:url></s:urlset>"
        ),
        "/a",
    ),
    _lists(
        "images, films and languages beside the pages",
        xml(
            f"<urlset {_NAMES}><url><image:image><image:loc>http://{{at}}/no1</image:loc></image:image>"
            "<loc>http://{at}/a</loc><image:loc>http://{at}/no2</image:loc>"
            '<xhtml:link rel="alternate" hreflang="de" href="http://{at}/no3"/>'
            "<video:video><video:loc>http://{at}/no4</video:loc></video:video></url></urlset>"
        ),
        "/a",
    ),
    _lists(
        "two addresses in one entry",
        xml("<urlset><url><loc>http://{at}/a</loc><loc>http://{at}/b</loc></url></urlset>"),
        "/a",
        "/b",
    ),
    _lists(
        "bare ampersands and HTML entities",
        xml("<urlset><url><loc>http://{at}/a?x&y=1&copy;=2</loc></url></urlset>"),
        "/a?x&y=1&copy;=2",
    ),
    _lists(
        "tags that do not match",
        xml("<urlset><url><loc>http://{at}/a</loc></urlset>"),
        "/a",
        filtered={"sitemap_cut": 1},
    ),
    _lists(
        "broken off",
        xml("<urlset><url><loc>http://{at}/a</loc></url><url><loc>http://{at}/b"),
        "/a",
        filtered={"sitemap_cut": 1},
    ),
    _lists(
        "an index of all kinds",
        xml(
            "<sitemapindex><sitemap><loc>http://{at}/1.txt</loc></sitemap><sitemap>"
            "<loc> /2.xml</loc><lastmod>2026-11-01</lastmod></sitemap></sitemapindex>"
        ),
        "/1.txt",
        "/2.xml",
        request={"maxdepth": 1},
    ),
    _lists(
        "an RSS feed",
        xml(
            '<rss xmlns:atom="http://www.w3.org/2005/Atom"><channel><link>http://{at}/no</link><item>'
            '<atom:link rel="self" href="http://{at}/no2"/><link>http://{at}/a</link></item><item>'
            "<guid>http://{at}/b</guid></item><item><guid isPermaLink='false'>x</guid>"
            "</item></channel></rss>"
        ),
        "/a",
        "/b",
    ),
    _lists(
        "an Atom feed",
        xml(
            '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/news/"><link href="/no"/><entry>'
            '<link rel="edit" href="no2"/><link href="a"/></entry><entry>'
            '<link rel="alternate" href="/b"/></entry></feed>'
        ),
        "/news/a",
        "/b",
    ),
    _lists(
        "an error page",
        answer("<!doctype html><title>404</title><a href=/no>x</a>"),
        filtered={"sitemap_unread": 1},
    ),
    Case(
        "sitemap: named by robots.txt with a byte order mark",
        {
            "/robots.txt": text(
                codecs.BOM_UTF8 + b"Sitemap: http://{at}/s.xml\nsitemap:/t.txt # x\n"
            ),
            "/s.xml": xml(urlset("/a")),
            "/t.txt": text("http://{at}/b"),
        },
        ["/robots.txt", "/robots.txt", "/s.xml", "/t.txt", "/a", "/b"],
        seed="http://{at}/robots.txt",
        spider=SPIDER,
        request={"maxdepth": 3},
    ),
]
