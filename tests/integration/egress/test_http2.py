"""Sites that speak HTTP/2 with who greets them like a browser, and all that goes wrong there."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import IPAddress
from scrapy.http import Response

from crawling.egress.blame import Blame
from crawling.egress.route import Route
from crawling.failures import reason_of
from crawling.page.page import Page
from crawling.tls.targets import TARGETS
from crawlstream.model.egress.tls import PROFILES
from crawlstream_chaos.scripted_site import Answer, SeenRequest, page, serving
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster, counted
from support.crawler.h2_site import H2Site
from support.crawler.profiled import with_browsers
from support.crawler.proxied import Bench
from support.crawler.proxies import small_proxy, tinyproxy
from support.crawler.tls import TlsSite, make_certificate
from support.crawler.visitor import Visitor
from support.waiting import wait_until

pytest_plugins = ["support.crawler.fixtures"]

BROWSERS = tuple(TARGETS)
_FROZEN_S = 5.5
PAGES = {
    "/": page("/a"),
    "/many": Answer(
        b"\0\xff" * 50_000,
        headers={"Content-Type": "text/html", "ETag": '"x"'},
        more_headers=[("Set-Cookie", "a=b"), ("Set-Cookie", "c=d; Secure"), ("Vary", "Cookie")],
    ),
    "/packed": Answer(gzip.compress(b"abc", mtime=0), headers={"Content-Encoding": "gzip"}),
    "/moved": Answer(status=302, headers={"Location": "/"}),
    "/none": Answer(status=204),
    "/busy": Answer(b"later", status=503, headers={"Retry-After": "7"}),
    "/large": Answer(b"x" * (2 << 20)),
}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for two hosts: a browser would send both over one connection."""
    hosts = (IPAddress(ip_address(f"127.0.0.{number}")) for number in (1, 2))
    return make_certificate(tmp_path, *hosts)


@pytest.fixture
def modern(certificate: Path) -> Iterator[H2Site]:
    """A web that speaks HTTP/2."""
    with serving(PAGES, kind=H2Site) as site:
        assert isinstance(site, H2Site)
        site.certify(certificate)
        yield site


@pytest.fixture
def usual(certificate: Path) -> Iterator[TlsSite]:
    """A site by HTTP/1.1."""
    with serving(PAGES, kind=TlsSite) as site:
        assert isinstance(site, TlsSite)
        site.certify(certificate)
        yield site


@pytest.fixture
async def browsing(bench: Bench, visitor: Visitor) -> AsyncIterator[Visitor]:
    """A visitor with all profiles; no pools."""
    await bench.set("pools: {}")
    async with with_browsers(visitor, bench, PROFILES):
        yield visitor


def shown(response: Response) -> tuple[Any, ...]:
    """All that a result has of a response."""
    headers = dict(response.headers.to_unicode_dict())
    return response.status, headers, response.headers.getlist("Set-Cookie"), response.body


async def found(visitor: Visitor, url: str, **request: Any) -> Any:
    """Outcome of a page, shown; or the reason why not."""
    try:
        response = await visitor.fetch(url, **request)
    except Exception as error:  # noqa: BLE001  named by its reason
        return reason_of(error)
    return (*shown(response), str(response.ip_address), type(response), response.flags)


@pytest.mark.parametrize("profile", BROWSERS)
async def test_what_comes_is_the_same_by_http_2_and_by_http_1(
    browsing: Visitor, modern: H2Site, usual: TlsSite, profile: str
) -> None:
    """Status, headers that repeat, codings, bodies, limits, refusals; and what the site is sent."""
    headers = {"User-Agent": "example-bot/1.0", "Accept-Language": "de", "Accept-Encoding": "gzip"}
    for path in (*PAGES, "/gone?a=%2f&b=ü"):
        for method in ("GET", "HEAD") if path != "/large" else ("GET",):
            asked = {"tls": profile, "method": method, "headers": headers}
            one = await found(browsing, usual.url(path), **asked)
            assert await found(browsing, modern.url(path), **asked) == one, path
    assert modern.protocols.keys() == {"h2"}
    assert [v.path for v in modern.visits] == [v.path for v in usual.visits]
    assert [v.method for v in modern.visits] == [v.method for v in usual.visits]
    for by_2, by_1 in zip(modern.visits, usual.visits, strict=True):
        del by_2.headers["host"], by_1.headers["host"]
        assert by_2.headers == by_1.headers


@pytest.mark.parametrize("profile", BROWSERS)
async def test_a_page_has_a_connection_to_itself(
    browsing: Visitor, modern: H2Site, profile: str
) -> None:
    """No two share one at a time, none carries another host's requests, whatever a site offers."""
    modern.pages["/slow"] = Answer(after_s=0.2)
    modern.troubles["/elsewhere"] = "elsewhere"
    modern.pages["/elsewhere"] = Answer(b"x", headers={"Alt-Svc": f'h2=":{modern.port}"'})
    urls = [modern.url("/slow", f"127.0.0.{1 + number % 2}") for number in range(8)]
    urls += [modern.url("/elsewhere", f"127.0.0.{1 + number % 2}") for number in range(4)]
    for some in (urls[:8], *([url] for url in urls[8:])):
        outcomes = await asyncio.gather(*(browsing.outcome(url, tls=profile) for url in some))
        assert outcomes == [200] * len(some)
    assert modern.most_at_once == 1
    assert modern.protocols == {"h2": 8}
    assert [len(set(hosts)) for hosts in modern.connections] == [1] * 8
    assert len(modern.visits) == len(urls)


ENDINGS = {
    "goaway": "connection_lost",
    "abort": "connection_lost",
    "reset": "connection_lost",
    "refuse": "connection_lost",
    "old": "connection_lost",
    "stall": "timeout",
    "short": "connection_lost",
    "huge": "connection_lost",
    "hints": 200,
}


@pytest.mark.parametrize("profile", BROWSERS)
async def test_what_goes_wrong_is_one_attempt_each(
    browsing: Visitor, modern: H2Site, profile: str
) -> None:
    """Counts each fault as one attempt, on new and kept connections; the next page has a way."""
    sent = []
    for name, outcome in ENDINGS.items():
        path, meta = f"/{name}", {"download_timeout": 0.5 if outcome == "timeout" else 5.0}
        modern.pages[path], modern.troubles[path] = Answer(b"y" * 1000), name
        for host, before in (("127.0.0.1", []), ("127.0.0.2", ["/"])):
            for each in (*before, path):
                told = await browsing.outcome(modern.url(each, host), tls=profile, meta=meta)
                assert told == (200 if each == "/" else outcome), (each, host)
                sent.append(each)
    assert modern.paths() == sent


async def test_a_site_that_ends_a_connection_has_cost_nobody_an_attempt(
    browsing: Visitor, modern: H2Site
) -> None:
    """GOAWAY behind an answer: what libcurl would say to that must not be paid for by a page."""
    modern.troubles["/leave"] = "leave"
    modern.pages["/leave"] = page()
    for path in ("/", "/leave"):
        assert await browsing.outcome(modern.url(path), tls="chrome") == 200
    await wait_until(lambda: modern.has_left)
    assert await browsing.outcome(modern.url("/"), tls="chrome") == 200
    assert [len(hosts) for hosts in modern.connections] == [2, 1]


async def test_a_body_that_a_site_has_no_room_for_is_not_waited_for(
    bench: Bench, visitor: Visitor, modern: H2Site
) -> None:
    """The window for it never opens; where it opens bit by bit, all is sent."""
    asked = {"tls": "chrome", "method": "POST", "body": b"abc" * 50_000}
    await bench.set("pools: {}")
    async with with_browsers(visitor, bench, PROFILES, verifies=False):
        modern.makes_room = False
        meta = {"download_timeout": 0.5}
        assert await visitor.outcome(modern.url("/"), **asked, meta=meta) == "timeout"
        modern.makes_room = True
        assert await visitor.outcome(modern.url("/"), **asked) == 200
    assert modern.bodies == [asked["body"]]


WAYS = {"goaway": None, "abort": Blame.SITE, "reset": Blame.SITE, "short": Blame.SITE}


async def test_what_a_site_says_by_http_2_is_not_its_proxys_fault(
    bench: Bench, browsing: Visitor, modern: H2Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error through the tunnel is the site's; a tunnel that ends before that blames no party."""
    told: list[Blame] = []
    real = bench.routes.failed

    def note(route: Route, page: Page, blame: Blame) -> bool:
        told.append(blame)
        return real(route, page, blame)

    monkeypatch.setattr(bench.routes, "failed", note)
    ask = partial(browsing.outcome, proxy="de", tls="chrome")
    with small_proxy() as proxy:
        await bench.of(f"http://{proxy.url}")
        for name, blame in WAYS.items():
            modern.pages[f"/{name}"], modern.troubles[f"/{name}"] = Answer(b"y" * 1000), name
            for before in ([], ["/"]):
                told.clear()
                for path in (*before, f"/{name}"):
                    outcome = await ask(modern.url(path))
                    assert outcome == (200 if path == "/" else "connection_lost"), path
                assert told == ([blame] if blame else []), name
        modern.pages["/slow"] = Answer(after_s=0.6)
        meta = {"download_timeout": 0.3}
        told.clear()
        assert await ask(modern.url("/slow"), meta=meta) == "proxy"
        assert told == [Blame.PATH]

        def cut(_: SeenRequest) -> Answer:
            proxy.drop()
            return Answer()

        modern.pages["/cut"] = cut
        assert await ask(modern.url("/cut")) == "proxy"
        assert told == [Blame.PATH] * 2


async def test_http_2_goes_through_real_proxies(
    bench: Bench, browsing: Visitor, modern: H2Site, tmp_path: Path
) -> None:
    """Connects by CONNECT with a password; two pages share one tunnel."""
    with tinyproxy(tmp_path, user="u", password="pw") as proxy:
        await bench.of(proxy.url)
        for path in ("/", "/many"):
            response = await browsing.fetch(modern.url(path), proxy="de", tls="firefox")
            assert (response.status, response.ip_address) == (200, None)
            assert response.protocol == "HTTP/2"
        assert proxy.log.read_text().count(f"CONNECT 127.0.0.1:{modern.port}") == 1
    assert len(modern.connections) == 1


def flaky() -> Callable[[SeenRequest], Answer]:
    """In trouble at the first visit."""
    answers = iter([Answer(status=500)])
    return lambda _: next(answers, page())


def told(records: list[dict[str, Any]], site: TlsSite) -> dict[str, dict[str, Any]]:
    """Records of one site's pages by URL, without what is by chance: times, ids, its port."""
    text = json.dumps([record for record in records if f":{site.port}/" in record["url"]])
    by_chance = {"crawlid", "id", "latency_ms", "timestamp"}
    return {
        record["url"]: {key: record[key] for key in record.keys() - by_chance}
        for record in json.loads(text.replace(f":{site.port}", ":1"))
    }


async def test_crawls_bring_the_same_records(
    cluster: CrawlerCluster, modern: H2Site, usual: TlsSite
) -> None:
    """Delivers the same records by HTTP/2 and HTTP/1.1, with robots.txt, redirects and retries."""
    await cluster.set_pools("pools: {}")
    with cluster.worker(CRAWLSTREAM_TLS_PROFILES="chrome", ROBOTSTXT_OBEY="true"):
        for number, site in enumerate((modern, usual)):
            site.pages |= {
                "/": page("/many", "/packed", "/moved", "/flaky", "/none", "/closed"),
                "/moved": Answer(status=302, headers={"Location": "/there"}),
                "/there": page(),
                "/robots.txt": Answer(b"User-agent: *\nDisallow: /closed"),
                "/flaky": flaky(),
            }
            crawl = await cluster.feed(site.url("/"), crawlid=str(number), maxdepth=1, tls="chrome")
            await cluster.end_of(crawl, timeout_s=120)
    records = cluster.results()
    by_2, by_1 = told(records, modern), told(records, usual)
    assert len(by_2) == 6
    assert by_2 == by_1
    assert {record["latency_ms"] >= 0 for record in records} == {True}
    assert by_2["https://127.0.0.1:1/flaky"]["attempt"] == 2
    assert set(modern.protocols) == {"h2"}


async def test_a_worker_that_is_killed_or_frozen_costs_no_page(
    cluster: CrawlerCluster, modern: H2Site
) -> None:
    """Requests in flight are sent once more."""
    paths = [f"/{number}" for number in range(24)]
    modern.pages |= dict.fromkeys(paths, Answer(b"x", after_s=0.2))
    await cluster.set_pools("pools: {}")
    await cluster.set_rules(replace(WIDE_OPEN, concurrency=4), {})
    crawl = await cluster.feed(*map(modern.url, paths), tls="chrome")
    settings = {"CRAWLSTREAM_TLS_PROFILES": "chrome"}
    with cluster.worker(**settings) as worker:
        await wait_until(lambda: len(modern.visits) > 4)
        worker.kill()
    with cluster.worker(**settings) as worker:
        seen = len(modern.visits)
        await wait_until(lambda: len(modern.visits) > seen + 4)
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(_FROZEN_S)
        worker.signal(signal.SIGCONT)
        await cluster.end_of(crawl, timeout_s=120)
    assert Counter(counted(cluster.results()).values()) == {1: len(paths)}
    assert len(modern.visits) <= len(paths) + 3 * 4
