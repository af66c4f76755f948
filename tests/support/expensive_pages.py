"""Small responses that mean to be expensive, and how a crawler handles one of them."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
from backports import zstd
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.responsetypes import responsetypes

from crawling.engine.middlewares import WatchedCompression
from crawling.failures import reason_of
from crawling.links.children import Children, Outlinks
from crawling.links.traps import Traps
from crawling.page.body_budget import BodyBudget
from crawling.page.directives import directives_of
from crawling.page.flight_recorder import FlightRecorder
from crawling.page.head import head_of
from crawling.page.rights import rights_of
from crawling.page.scrapy_request import PAGE, to_scrapy
from crawling.response.charset import with_charset
from crawling.response.redirects import redirect_of
from crawling.spiders.base import ClusterSpider
from crawling.spiders.link import LinkSpider
from crawling.spiders.sitemap import SitemapSpider
from crawlstream.model.crawl import Profile
from crawlstream.model.result import CrawlResult
from crawlstream.wire.results import encode_page
from support.pages import page_at

MIB = 1 << 20
MOST = 2 * MIB
"""Bytes of a response on the wire, and of a page's profile."""
URL = "http://a.example/some/folder/page"
LARGEST = 16 * MIB


@dataclass(frozen=True, slots=True)
class ExpensivePage:
    """A response, and the crawl that meets it."""

    body: bytes = b""
    headers: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    url: str = URL
    status: int = 200
    spider: type[ClusterSpider] = LinkSpider


def _many(template: str, start: str = "", size: int = MOST) -> bytes:
    """A template with a number in it as often as it fits."""
    times = (size - len(start)) // len(template.format(999_999))
    return (start + "".join(map(template.format, range(times)))).encode()


def _nested(depth: int, template: str, inside: str) -> bytes:
    start = "".join(map(template.format, range(depth)))
    return (start + inside * ((MOST - len(start)) // len(inside))).encode()


def _layers(count: int, size: int) -> ExpensivePage:
    body = bytes(size)
    for _ in range(count - 1):
        packer = zlib.compressobj(0, wbits=31)
        body = packer.compress(body) + packer.flush()
    codings = ", ".join(["gzip"] * count)
    return ExpensivePage(gzip.compress(body), {"Content-Encoding": codings})


def _parts() -> dict[str, ExpensivePage]:
    """Bodies of many parts that bring nothing out, in one coding and in two."""
    skipped = b"\x50\x2a\x4d\x18" + bytes(4)
    empty = {"gzip": gzip.compress(b""), "zstd": zstd.compress(b""), "skipped": skipped}
    pack: Mapping[str, Any] = {
        "gzip": gzip.compress,
        "zstd": zstd.compress,
        "skipped": zstd.compress,
    }
    pages = {}
    for name, part in empty.items():
        coding = name.replace("skipped", "zstd")
        one, two = part * (MOST // len(part)), pack[name](part * (LARGEST // len(part)))
        pages[f"empty parts: {name}"] = ExpensivePage(one, {"Content-Encoding": coding})
        pages[f"packed empty parts: {name}"] = ExpensivePage(
            two, {"Content-Encoding": f"{coding}, {coding}"}
        )
    blocks = b"\x00\x00\x00\xff\xff" * (LARGEST // 5)
    pages["packed empty blocks"] = ExpensivePage(
        gzip.compress(blocks), {"Content-Encoding": "deflate, gzip"}
    )
    return pages


def _markup() -> dict[str, ExpensivePage]:
    bodies = {
        "texts in texts": _nested(1000, "<a href=/{:x}><b>", "x"),
        "elements in links": _nested(1000, "<a href=/{:x}><b>", "<br>"),
        "links in links": _nested(1000, "<a href=/{:x}><b>", "<a href=/y>"),
        "deep": _nested(2000, "<div>", "<a href=/x><b></b></a>"),
        "deeper": b"<div>" * (MOST // 5),
        "plain links": _many("<a href=/{}>"),
        "queries": _many("<a href=?{}>"),
        "dots": _many("<a href=../x/../{}>"),
        "foreign hosts": _many("<a href=//h{}.example/>"),
        "foreign letters": _many("<a href=/ü{}>"),
        "hosts of letters": _many("<a href=//ü{}.example/>"),
        "arguments": _many("<a href='/?" + "&".join(f"{n}=%41" for n in range(300)) + "&{}'>"),
        "one long address": b"<a href=/" + b"x" * MIB + b">",
        "long addresses": _many("<a href=/{}/" + "é/" * 8000 + ">"),
        "long hosts": _many("<a href=//" + "é" * 2000 + "{}.example/>"),
        "hosts of many letters": _many("<a href=//" + "é." * 200 + "{}.example/>"),
        "labels": _many("<a href=//" + "a." * 1000 + "{}/>"),
        "attributes": b"<a " + b"b=c " * 250_000 + b"href=/x>" + b"<p " + b"y=z " * 200_000,
        "different attributes": b"<a href=/x>" + _many(" a{}", "<p ") + b"><a href=/y>",
        "different values": b"<a href=/x>" + _many(" a{}='>'", "<p ") + b"><a href=/y>",
        "a huge attribute": b"<p class='" + b"x" * (MOST - 20) + b"'>",
        "texts": _many("<a href=/{}>" + "x" * 600 + "</a>"),
        "comments": b"<!--" * (MOST // 4),
        "entities": _many("<a href=/{}>&amp;&#1234;&copy;"),
        "unclosed": b"<a href='" * (MOST // 9),
        "tables": b"<table><tr><td>" * (MOST // 15),
        "quotes": b'<a href="' + b"'" * (MOST // 2),
        "nul": b"\x00<\x00a\x00 href=/\x00x>" * (MOST // 14),
        "tags": _many("<t{}>"),
    }
    return {name: ExpensivePage(body) for name, body in bodies.items()}


def _bases() -> dict[str, ExpensivePage]:
    base = f"<base href='http://b.example/{'b' * 3900}/'>"
    dots = f"<base href='http://b.example/{'b/' * 1900}'>"
    refresh = "<meta http-equiv=refresh content='0;url={}'>"
    return {
        "base": ExpensivePage(_many("<a href={}>", base)),
        "base of folders": ExpensivePage(_many("<a href=../{}>", dots)),
        "bases": ExpensivePage(b"<base href=/x>" * (MOST // 14)),
        "base in comments": ExpensivePage(b"<!--" * 1000 + b"<base href=/x>" * 100_000),
        "refresh": ExpensivePage(_many("<a href=/{}>", refresh.format("x" * 3900))),
        "refreshes": ExpensivePage((refresh.format("/x") * 40_000).encode()),
        "refresh in scripts": ExpensivePage(b"<script>" * 400 + refresh.format("/x").encode() * 9),
    }


def _rules() -> dict[str, ExpensivePage]:
    names = tuple(f"n{number}.b.example" for number in range(1000))
    ends = tuple(f"x{number}" for number in range(1000))
    texts = tuple(f"(?:{'ab?' * 300}|x{number})" for number in range(100))
    backtracks = tuple(f"(?!x)(a|a)*{number}$" for number in range(100))
    many, hosts = _many("<a href=/aaaaaaaaaaaaaaaaaaaaaa{}>"), _many("<a href=//h{}.b.example/aa>")
    return {
        "allowed domains": ExpensivePage(hosts, profile={"allowed_domains": names}),
        "labels and domains": ExpensivePage(
            _many("<a href=//" + "a." * 100 + "{}/>"), profile={"allowed_domains": names}
        ),
        "extensions": ExpensivePage(many, profile={"deny_extensions": ends}),
        "dotted extensions": ExpensivePage(
            many, profile={"deny_extensions": tuple(f"{'a.' * n}b" for n in range(1000))}
        ),
        "expressions": ExpensivePage(many, profile={"allow_regex": texts, "deny_regex": texts}),
        "backtracking": ExpensivePage(many, profile={"deny_regex": backtracks}),
    }


def _heads() -> dict[str, ExpensivePage]:
    """As long as a head may be."""
    links = _many("<a href=/{}>")
    heap = {f"X-{number}": "y" for number in range(30_000)}
    cookies = [f"n{number}=v; Expires=Thu, 01 Jan 1970" for number in range(6_000)]
    said = {"Referrer-Policy": "origin," * 37_000}
    return {
        "heap": ExpensivePage(links, heap),
        "one header": ExpensivePage(links, {"X": "y" * 262_144}),
        "policies": ExpensivePage(links, said),
        "policy": ExpensivePage(
            _many("<a href=//h{}/>"), {"Referrer-Policy": "unsafe-url"}, url=URL * 9
        ),
        "type": ExpensivePage(links, {"Content-Type": "text/html; charset=" + "x" * 262_000}),
        "types": ExpensivePage(links, {"Content-Type": ";charset=" * 29_000}),
        "cookies": ExpensivePage(status=302, headers={"Location": "/x", "Set-Cookie": cookies}),
        "cookie": ExpensivePage(
            status=302, headers={"Location": "/x", "Set-Cookie": "a=1" + "; Expires=1" * 20_000}
        ),
        "location": ExpensivePage(status=302, headers={"Location": "/" + "../é" * 60_000}),
        "location's host": ExpensivePage(status=302, headers={"Location": "//" + "é." * 60_000}),
        "retry": ExpensivePage(status=503, headers={"Retry-After": "Thu, " * 50_000}),
        "directives": ExpensivePage(links, {"X-Robots-Tag": "unavailable_after: 1," * 12_000}),
        "lines of directives": ExpensivePage(links, {"X-Robots-Tag": ["a: noindex"] * 20_000}),
        "deep directives": ExpensivePage(b"<b>" * 2000 + b"<meta name=robots content=a>" * 60_000),
    }


def _traits() -> dict[str, ExpensivePage]:
    """Pages whose text or canonical URL takes long to read."""
    numbers = f"{URL}/1/2/3/4/5/6/7/8"
    digits = "".join(f"{number % 9} " for number in range(60_000)).encode()
    links = {"Link": '<a>; x="' * 30_000}
    return {
        "texts": ExpensivePage(_many("<i>{}")),
        "equal texts": ExpensivePage(b"<i>1" * 500_000),
        "spaces between": ExpensivePage(b"<i> " * 500_000),
        "numbers of the address": ExpensivePage(digits * 10, url=numbers),
        "a text of digits": ExpensivePage(b"1" * MOST, url=numbers),
        "scripts": ExpensivePage(_many("<script>{}</script>")),
        "text of wide characters": ExpensivePage(("é🙂" * 300_000).encode(), url=numbers),
        "texts of wide characters": ExpensivePage(_many("<i>🙂{}"), url=numbers),
        "links of a head": ExpensivePage(b"<head>" + b"<link rel=canonical>" * 100_000),
        "a canonical URL": ExpensivePage(b"<link rel=canonical href=/" + b"../" * 600_000 + b">"),
        "base and canonical": ExpensivePage(
            b"<base href=/" + b"a/" * 500_000 + b"><link rel=canonical href=/" + b"b/" * 500_000
        ),
        "rels": ExpensivePage(b"<link href=/x rel='" + b"canonica " * 200_000 + b"'>"),
        "links of a header": ExpensivePage(b"x", links),
        "lines of links": ExpensivePage(b"x", {"Link": ["<x>;rel=next"] * 20_000}),
        "brackets of links": ExpensivePage(b"x", {"Link": "<" * 250_000}),
        "parameters of a link": ExpensivePage(b"x", {"Link": "<a>" + ";rel=x" * 40_000}),
        "quotes of a link": ExpensivePage(b"x", {"Link": "<a>;rel=" + '"\\"' * 60_000}),
    }


def _bodies() -> dict[str, ExpensivePage]:
    spaces = bytes(LARGEST - 1)
    return {
        "layers": _layers(100, 15 * MIB),
        "two layers": _layers(2, 15 * MIB),
        "bomb": ExpensivePage(
            brotli.compress(bytes(99 * MIB), quality=1), {"Content-Encoding": "br"}
        ),
        "nothing": ExpensivePage(gzip.compress(spaces), {"Content-Encoding": "gzip"}),
        "elements": ExpensivePage(
            gzip.compress(b"<br>" * (4 * MIB - 1)), {"Content-Encoding": "gzip"}
        ),
        "binary": ExpensivePage(b"\xff\x00" * MIB, {"Content-Type": "image/png"}),
        "utf-16": ExpensivePage("<a href=/x>ü".encode("utf-16") * 70_000),
        "controls": ExpensivePage(b"\x01" * MOST),
        "codings": ExpensivePage(headers={"Content-Encoding": "gzip," * 50_000}, body=b"x"),
    }


def _sitemaps() -> dict[str, ExpensivePage]:
    url = "<url><loc>http://a.example/some/folder/page-{0}.html</loc><lastmod>{1}</lastmod></url>"
    whole = "<urlset>" + "".join(url.format(n, "2026-11-22") for n in range(60_000))
    alternates = "<a/>" * 15
    hosts = "".join(f"<url><loc>http://h{n}.example/</loc></url>" for n in range(60_000))
    rows = "".join(f"<url><loc>/{n}</loc>{alternates}</url>" for n in range(60_000))
    long_ones = "".join(f"<url><loc>/{n}/{'x' * 1000}</loc></url>" for n in range(40_000))
    feed = "".join(f"<item><link>/{n}</link><title>{'é' * 600}" for n in range(40_000))
    entities = "".join(f'<!ENTITY e{n} "&e{n - 1};&e{n - 1};">' for n in range(1, 40))
    bodies = {
        "sitemap": whole.encode(),
        "sitemap of hosts": ("<urlset>" + hosts).encode(),
        "sitemap of relatives": ("<urlset>" + rows).encode(),
        "sitemap of long addresses": ("<urlset>" + long_ones).encode(),
        "sitemap of spaces": b"<urlset>" + b" " * (60 * MIB),
        "sitemap of elements": b"<urlset>" + b"<a/>" * (2 * MIB),
        "sitemap of ampersands": b"<urlset><url><loc>" + b"&" * (3 * MIB),
        "sitemap of entities": f"<!DOCTYPE u [<!ENTITY e0 'x'>{entities}]><u>&e39;".encode(),
        "sitemap of one text": b"<urlset><url><loc>http://" + b"x" * (20 * MIB),
        "sitemap of one element": b"<urlset><url " + b"x" * (20 * MIB),
        "sitemap of attributes": b"<urlset><url " + b"".join(b"a%d='' " % n for n in range(10**5)),
        "sitemap of comments": b"<urlset>" + b"<!-- -->" * (2 * MIB),
        "sitemap of depth": b"<urlset>" + b"<url>" * MIB,
        "sitemap of ends": b"<urlset>" + b"</url>" * (2 * MIB),
        "sitemap of names": b"<urlset>" + b"".join(b"<a%d/>" % n for n in range(800_000)),
        "sitemap of spaces of names": b"<urlset>" + b'<x xmlns:n="u">' * (MIB // 2),
        "sitemap of characters": b"<urlset><url><loc>" + b"&#65;" * (2 * MIB),
        "sitemap of CDATA": b"<urlset><url><loc>" + b"<![CDATA[]]>" * MIB,
        "sitemap of instructions": b"<urlset>" + b"<?a?>" * (2 * MIB),
        "sitemap in sitemap": gzip.compress(gzip.compress(whole.encode())),
        "sitemap of dates": _many(
            "<url><loc>/{}</loc><lastmod>" + "1 " * 2000, "<urlset>", 10 * MIB
        ),
        "sitemap of nothing": bytes(49 * MIB),
        "index": b"<sitemapindex>" + b"<sitemap><loc>/x</loc></sitemap>" * 60_000,
        "feed": ("<rss><channel>" + feed).encode(),
    }
    kind = {"Content-Type": "application/gzip"}
    packed = {
        name: ExpensivePage(gzip.compress(body, 1), kind, spider=SitemapSpider)
        for name, body in bodies.items()
    }
    robots = b"".join(b"sitemap:/%d\n" % n for n in range(200_000))
    plain = {"Content-Type": "text/plain"}
    lines = ExpensivePage(robots, plain, url="http://a.example/robots.txt", spider=SitemapSpider)
    text = _many("- [Page {0}](/{0}): " + "[" * 20 + "\n", "# Site\n")
    llms_txt = ExpensivePage(text, plain, url="http://a.example/llms.txt", spider=SitemapSpider)
    packed["llms.txt"] = llms_txt
    half = replace(packed["sitemap"], body=packed["sitemap"].body[:100_000])
    names = tuple(f"n{number}.b.example" for number in range(1000))
    texts = tuple(f"(?:{'ab?' * 300}|x{number})" for number in range(100))
    rules = {"allow_regex": texts, "allowed_domains": names}
    ruled = replace(packed["sitemap"], profile=rules)
    return {**packed, "robots": lines, "half a sitemap": half, "a sitemap's rules": ruled}


def expensive_pages() -> Mapping[str, ExpensivePage]:
    """Return all of them by their names."""
    bodies = {**_bodies(), **_parts(), **_sitemaps()}
    pages = {**_markup(), **_bases(), **_rules(), **_heads(), **_traits(), **bodies}
    return {
        name: replace(expensive, body=expensive.body[:MOST]) for name, expensive in pages.items()
    }


def what_becomes_of(expensive: ExpensivePage, folder: Path) -> str:
    """All that a crawler does with a response; how it ends: ``done``, ``redirected``, a reason."""
    try:
        return asyncio.run(_handle(expensive, folder))
    except Exception as error:  # noqa: BLE001  any error fails the page, with a reason
        return reason_of(error)


async def _handle(expensive: ExpensivePage, folder: Path) -> str:
    page = page_at(expensive.url[:2000], profile=Profile(maxdepth=1, **expensive.profile))
    request = to_scrapy(page, Spider("link"), print)
    kind = responsetypes.from_args(
        url=expensive.url, body=expensive.body, headers=_headers(expensive)
    )
    raw = kind(
        page.lease.entry.url, expensive.status, _headers(expensive), expensive.body, request=request
    )
    unpack = WatchedCompression(LARGEST, FlightRecorder(folder, "link"), BodyBudget())
    plain: Any = await unpack.process_response(request, raw)
    response: Any = with_charset(plain)
    if redirect_of(page, response, 100) is not None:
        return "redirected"
    head = head_of(response)
    page.directives = directives_of(response, "bot", head)
    page.rights = rights_of(response, head, None, "other")
    page.is_watched = True
    return _parse(expensive.spider, page, request, response)


def _headers(expensive: ExpensivePage) -> Any:
    return Response(
        expensive.url, headers={"Content-Type": "text/html", **expensive.headers}
    ).headers


def _parse(spider: type[ClusterSpider], page: Any, request: Request, response: Response) -> str:
    children = Children(page, Traps(20, 3))
    assert request.meta[PAGE] is page
    for each in spider().parse(response):
        if isinstance(each, Outlinks) and each.versions:
            children.follow_versions(each, response)
        elif isinstance(each, Outlinks):
            children.follow(each.urls, response, spiderid=each.spiderid)
        elif isinstance(each, CrawlResult):
            encode_page(each)
    assert children.groups is not None
    return "done"
