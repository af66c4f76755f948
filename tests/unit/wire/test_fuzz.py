"""Any bytes from outside end in a value or in a refusal of this project, never otherwise.

FUZZ_EXAMPLES=100000 looks as long as one likes; CI looks at some hundred of each kind.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protego import Protego
from scrapy.http import HtmlResponse

from crawling.links.extract import links_of
from crawling.robots.lines import LineReader
from crawling.robots.robots_book import rules_note
from crawling.robots.rules import rules_in
from crawlstream.boot.addresses import AddressRefused, Guard
from crawlstream.bus.records import Record
from crawlstream.errors import BadTable, InvalidRequest, InvalidUrl
from crawlstream.model.crawl import Profile
from crawlstream.model.effects import Seed
from crawlstream.model.request import RequestLimits
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.url import canonical, host_of, seed_url
from crawlstream.plugins.handlers import Router
from crawlstream.throttle.parse import node_of
from kafka_monitor.plugins.scraper_handler import ScraperHandler
from rest_service.http.envelope import RequestRefused
from rest_service.topics.seeds import read_seeds

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "120"))
fuzz = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
SLOW_S = 2.0
"""No few bytes may keep a process busy for so long."""


def mixed(*fragments: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that look like something, with any bytes between."""
    return st.lists(st.sampled_from(fragments) | st.binary(max_size=6), max_size=12).map(b"".join)


# Records.

_REQUESTS = mixed(
    b'{"url":"http://a.example/",', b'"appid":"a",', b'"crawlid":"c",', b'"maxdepth":1,',
    b'"attrs":{"x":', b"[", b"]", b"{", b"}", b'"', b",", b":", b"null", b"1e999", b"-0",
    b"\\ud800",
    b'"url":"file:///etc/passwd",', b'"allow_regex":["(a+)+$"],', b'"expires":1,', b'"priority":1}',
)  # fmt: skip


@fuzz
@given(_REQUESTS)
def test_any_record_is_a_seed_or_is_refused(raw: bytes) -> None:
    """Admits or refuses any record, from its bytes to the effect on the frontier."""
    router = Router([ScraperHandler()], RequestLimits())
    for value in (raw, b'{"url":"http://a.example/","appid":"a","crawlid":"c",' + raw + b"}"):
        record = Record("demo.incoming", 0, 1, 1_700_000_000_000, None, value)
        try:
            handler, request = router.route(value)
            effect = asyncio.run(handler.handle(request, record))
        except (InvalidRequest, InvalidUrl):
            continue
        assert isinstance(effect, Seed)


# URLs and the guard.

_NUMBER = st.sampled_from(["127", "0x7f", "0177", "1", "0", "10", "192.168", "2130706433", "0x0"])
_PIECE = _NUMBER | st.sampled_from(
    ["①②⑦", "。", "\uff0e", "localhost", "[::1]", "[::ffff:7f00:1]", "[", "]", "@", ":80", ":6379",
     "%2e", "%00", "\\", "/", "?", "#", "a.example", "xn--a", "é", "\t", "\n", " ", "-", "_",
     "user:"],
)  # fmt: skip
_PLACES = st.lists(_PIECE | st.just("."), min_size=1, max_size=7).map("".join)


def resolved(host: str) -> str | None:
    """The address that the system's resolver takes a host for without asking anybody."""
    try:
        found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError, ValueError):
        return None
    return str(found[0][4][0])


@fuzz
@given(_PLACES)
def test_no_address_passes_in_disguise(place: str) -> None:
    """Hosts that the resolver reads as an address are addresses, which the guard judges."""
    for parse in (canonical, seed_url):
        try:
            host = host_of(parse(f"http://{place}/"))
        except InvalidUrl:
            continue
        if (address := resolved(host)) is None:
            continue
        assert ip_address(host) == ip_address(address)
        if not ip_address(address).is_global:
            with pytest.raises(AddressRefused):
                Guard().vet([ip_address(address)], 80)


# Pages.

_MARKUP = mixed(
    b"<a href=", b"<A HREF='", b'"', b"'", b">", b"</a>", b"<base href=//b.example/>", b"<area ",
    b"href=/x", b"<!--", b"-->", b"<script>", b"</script", b"<![CDATA[", b"&amp;", b"&#0;",
    b"&#x110000;",
    b"http://c.example/?a=1&b", b"javascript:", b"\x00", b"\xff\xfe", b"<table><tr>", b"<svg><a ",
)  # fmt: skip
_CHARSETS = st.sampled_from([b"", b"; charset=utf-8", b"; charset=utf-16", b"; charset=no-such"])


@fuzz
@given(_MARKUP, _CHARSETS)
def test_any_markup_has_links_that_can_be_crawled_or_none(body: bytes, charset: bytes) -> None:
    """Every link that is found is a URL or is refused as one; nothing raises, nothing lasts."""
    headers = {"Content-Type": b"text/html" + charset}
    response = HtmlResponse("http://a.example/page", body=body, headers=headers)
    began = time.perf_counter()
    links, refused = links_of(response, Profile())
    assert time.perf_counter() - began < SLOW_S
    for url, _ in links:
        with suppress(InvalidUrl):
            assert canonical(canonical(url)) == canonical(url)
    assert all(count > 0 for count in refused.values())


# robots.txt.

_ROBOTS = mixed(
    b"User-agent: *\n", b"user-agent:", b"Disallow: /", b"Allow: ", b"*" * 30, b"$", b"\n", b"\r",
    b"Crawl-delay: ", b"1e9", b"-1", b"nan", b"inf", b"\xef\xbb\xbf", b"#", b"%zz", b"/a*b*c*d*$",
    b"a" * 40,
)  # fmt: skip


@fuzz
@given(_ROBOTS)
def test_any_robots_txt_says_yes_or_no(text: bytes) -> None:
    """A page may be fetched or not, at a pause of at most five minutes, and soon."""
    began = time.perf_counter()
    rules = rules_in(rules_note(text).text())
    if rules is not None:
        for path in ("/", "/a" * 20, "/x?" + "a" * 50):
            assert rules.allow(f"http://a.example{path}", "crawlstream") in {True, False}
        assert 0 <= rules.crawl_delay_ms("crawlstream") <= 300_000
    assert time.perf_counter() - began < SLOW_S


_GROUPS = st.lists(
    st.sampled_from(
        [
            "User-agent: a", "user agent b", "USERAGENT:c", "User-agent : d*", "user e", "userx: 1",
            "user#agent: f", "# User-agent: g", "Disallow: /a", "Disalow: /b$", "disallow:",
            "allow /c*", "allowed /d", "allow: x/index.html", "Sitemap: s", "host: h",
            "Crawl-delay: 1", "noindex: /", "", "\u2028User-agent: i", "\tuser-agent:\xa0j",
        ]
    )
)  # fmt: skip


@fuzz
@given(_GROUPS)
def test_no_robots_txt_holds_many_more_rules_than_it_weighs(lines: list[str]) -> None:
    """Limits rules to eight times those that were counted, whatever Protego reads."""
    reader = LineReader()
    kept = reader.read("\n".join(lines).encode())
    groups: Any = Protego.parse(kept)._user_agents.values()
    assert sum(len(group._rules) for group in groups) <= 8 * reader.weight


# The rules in ZooKeeper.

_YAML = mixed(
    b"domains:\n", b"  a.example:\n", b"    hits: ", b"    window: ", b"scale: ", b"1", b"-1",
    b"0.5",
    b".inf", b".nan", b"1e400", b"~", b"{}", b"[]", b"&a ", b"*a", b"<<: *a",
    b"!!python/object:os.system ",
    b"blacklist:\n", b"- b.example\n", b"- - -", b"? ", b"|\n", b"\n",
    b"default: {hits: 1, window: 1}\n",
    b"\t", b"\x00", b"\xff",
)  # fmt: skip
_DEFAULT = ThrottleRule(hits=10, window_s=60)


@fuzz
@given(_YAML)
def test_any_node_is_a_table_or_is_refused(node: bytes) -> None:
    """Reads any node as a table of valid rules, or refuses it."""
    for data in (node, b"domains:\n  a.example: {hits: 1, window: 1}\n" + node):
        try:
            table = node_of("/rules", _DEFAULT).parse(data, 1, 1)
        except BadTable:
            continue
        for rule in (table.default, *table.rules.values()):
            assert rule.effective_hits >= 0
            assert rule.window_s > 0


# Bodies of REST calls.

_KINDS = st.sampled_from(["application/json", "application/x-ndjson", "text/csv", "text/html", ""])
_BODIES = _REQUESTS | mixed(
    b"url,appid,crawlid\n", b"http://a.example/,a,c\n", b'"', b",", b"\r\n", b"\n", b"\x00",
    b"\xff",
    b"maxdepth", b"=cmd", b'[{"url":"a.example","appid":"a","crawlid":"c"}', b"]", b",{}",
)  # fmt: skip


@fuzz
@given(_BODIES, _KINDS)
def test_any_body_is_seeds_or_is_refused(body: bytes, kind: str) -> None:
    """Reads any body as seeds in any form, or refuses it with a valid message."""
    try:
        assert read_seeds(body, kind, RequestLimits())
    except RequestRefused as refused:
        told = refused
    else:
        return
    assert 400 <= told.status < 500
    assert json.dumps(str(told))
