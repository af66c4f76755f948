"""Measure a page in a browser: CPU time and memory of crawler and browser, pages per second.

Each page has twelve requests (five scripts, five images, a style sheet, a fetch), of which images
are not loaded. A crawler's client renders four at a time, through the gateway; site and crawler are
different processes, and only the crawler's and the browser's CPU time counts.

``BENCH_PLAYWRIGHT``, the Python of an environment that has scrapy-playwright, lets a Scrapy crawler
with that fetch the same pages in the same run, right after: with the same browser, four at a time,
images left out, in one context for all pages, as is its default.

``screenshot_cpu_ms`` is the CPU time that a screenshot of the window adds to a page.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

import psutil
from lib.harness import Benchmark, Figures, Line
from redis.asyncio import Redis
from scrapy import Request

from crawling.client.http_client import HttpClient
from crawling.gateway.gateway import Gateway
from crawling.lease.leases import Leases
from crawling.links.blacklist import Blacklist
from crawling.links.scope import OF_THE_CRAWL
from crawling.net.address_guard import GuardedResolver
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.render import tree
from crawling.render.browser import Browser
from crawling.render.browsers import Browsers
from crawling.render.chromium import find_browser, program_of
from crawling.render.judge import Rests
from crawling.render.rendering_client import Renderer, RenderingClient
from crawlstream.boot.addresses import Guard
from crawlstream.boot.settings import load_settings
from crawlstream.errors import SetupError
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.effects import Loss
from crawlstream.model.egress.render import USUAL_TYPES
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite
from crawlstream_frontier.frontier import Frontier

PAGES = int(os.environ.get("BENCH_PAGES", "100"))
AT_ONCE = 4
_WARM = 8
_SCRIPT = "for (let n = 0; n < 200; n++) { document.body.append(document.createElement('p')); }"


def _pages() -> dict[str, Answer]:
    scripts = "".join(f"<script src=/{n}.js defer></script>" for n in range(5))
    images = "".join(f"<img src=/{n}.png>" for n in range(5))
    text = "".join(f"<p>paragraph {n} of a page like many others</p>" for n in range(200))
    ask = "<script>fetch('/data').then(r => r.json()).then(j => document.title = j.title)</script>"
    page = (
        "<!DOCTYPE html><html><head><link rel=stylesheet href=/a.css>"
        f"{scripts}</head><body>{images}{text}{ask}</body></html>"
    )
    script = {"Content-Type": "text/javascript"}
    return {
        "/": Answer(page.encode(), headers=HTML),
        "/a.css": Answer(b"p { margin: 1em }", headers={"Content-Type": "text/css"}),
        "/data": Answer(b'{"title": "a"}', headers={"Content-Type": "application/json"}),
        **{f"/{n}.js": Answer(_SCRIPT.encode(), headers=script) for n in range(5)},
    }


def _serve(told: Connection) -> None:
    site = CrawlerSite({})
    pages = _pages()
    site.pages = {**pages, **{f"/{n}": pages["/"] for n in range(PAGES + _WARM)}}
    told.send(site.port)
    site.serve()


@contextmanager
def _site() -> Iterator[int]:
    """The port of a site in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


class _Crawler:
    """A client that renders by grants of its own."""

    def __init__(self, blacklist: Blacklist) -> None:
        settings = load_settings(render=True)
        self.leases = Leases(AT_ONCE, lambda: None)
        networks = (ip_network("127.0.0.0/8"),)
        resolver = GuardedResolver(Guard(networks), None)
        self.gateway = Gateway(self.leases, resolver)
        self.browsers = Browsers(program_of(settings), most_pages=10_000, most_bytes=1 << 40)
        self.client = RenderingClient(
            Renderer(
                browsers=self.browsers,
                gateway=lambda: self.gateway,
                routes=None,
                leases=self.leases,
                blacklist=blacklist,
                redirects=OF_THE_CRAWL,
                allows=_allowed,
                settings=settings,
                lane="link+render",
                rests=Rests(),
            ),
            HttpClient(self.leases, resolver, timeout_s=5, most_bytes=1 << 20, verifies=None),
        )
        self._numbers = iter(range(1_000_000))

    async def fetch(self, url: str, *, screenshot: str | None = None) -> None:
        """Download one complete page, with a screenshot of a part of it."""
        wish = {"screenshot": screenshot, "types": USUAL_TYPES} if screenshot else {}
        now = time.monotonic()
        self.leases.note_answer(0, now, 1)
        lease = Lease(
            token=f"1-{next(self._numbers)}",
            crawl=CrawlKey("link", "bench", "bench"),
            run=1,
            domain="127.0.0.1",
            priority=1,
            entry=Entry(url=url),
            profile=Profile(render=wish),
            retries=0,
            issued_at=now,
        )
        page = self.leases.admit(lease)
        response = await self.client.fetch(Request(url, meta={PAGE: page}), page)
        assert page.render is not None, response
        assert page.render["complete"], page.render
        assert response.body.count(b"<p>") >= 1200, "the scripts have run"
        assert bool(page.screenshot and page.screenshot.body) == bool(screenshot), page.screenshot


async def _allowed(_page: Page, _url: str) -> bool:
    return True


async def measure(redis: Redis) -> Figures:
    """Pages of one site, four at a time."""
    frontier = Frontier(redis, FrontierKeys())
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    rules = frontier.rules
    table = ThrottleTable(default=ThrottleRule(hits=1000, window_s=1), czxid=1, mzxid=1)
    await rules.copy(table)
    blacklist = Blacklist(rules, drops=False, is_asked=True)
    await blacklist.look()
    crawler = _Crawler(blacklist)
    await crawler.gateway.start()
    try:
        with _site() as port:
            try:
                ours = await _measured(crawler, port)
            finally:
                await crawler.browsers.close()
            return {**ours, **await _beside(port)}
    finally:
        crawler.gateway.close()


async def _beside(port: int) -> Figures:
    """Measure the same pages with scrapy-playwright, if installed."""
    if not (python := os.environ.get("BENCH_PLAYWRIGHT")):
        return {}
    urls = [f"http://127.0.0.1:{port}/{n}" for n in range(PAGES + _WARM)]
    argv = [python, str(Path(__file__).with_name("beside_playwright.py")), find_browser(), *urls]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            return await asyncio.to_thread(_figures_of, process)
        finally:
            process.kill()


def _figures_of(process: subprocess.Popen[bytes]) -> Figures:
    """Return the cost of a crawler that reports its phases, with all its child processes."""
    assert process.stdin
    assert process.stdout
    _come(process.stdout, b"warm")
    spent, most = tree.cpu_s(process.pid), 0
    watch = threading.Event()

    def sample() -> None:
        nonlocal most
        while not watch.wait(1.0):
            most = max(most, tree.memory_bytes(process.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        process.stdin.write(b"\n")
        process.stdin.flush()
        _come(process.stdout, b"done")
    finally:
        watch.set()
        sampler.join()
    cpu_s = tree.cpu_s(process.pid) - spent
    return {
        "scrapy_playwright_cpu_ms": 1000 * cpu_s / PAGES,
        "scrapy_playwright_pss_mib": most / 2**20,
        "scrapy_playwright_per_core_s": PAGES / cpu_s,
    }


def _come(told: IO[bytes], phase: bytes) -> None:
    if not told.readline().startswith(phase):
        raise SetupError("BENCH_PLAYWRIGHT: scrapy-playwright did not fetch the pages")


async def _measured(crawler: _Crawler, port: int) -> Figures:
    urls = [f"http://127.0.0.1:{port}/{n}" for n in range(PAGES + _WARM)]
    most, own = 0, psutil.Process()

    async def work() -> None:
        nonlocal most
        while urls:
            await crawler.fetch(urls.pop())
            if len(urls) % 10 == 0:
                most = max(most, tree.memory_of(own) + browser.running.memory_bytes())

    async with crawler.browsers.one() as browser:
        domain_key(
            "example.com"
        )  # The list of suffixes may take longer to load than a grant lasts.
        for _ in range(_WARM):
            await crawler.fetch(urls.pop())
        own_s, browsers = time.process_time(), browser.running.cpu_s()
        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        wall_s = time.perf_counter() - began
        own_s = time.process_time() - own_s
        cpu_s = own_s + browser.running.cpu_s() - browsers
        with_picture_s = await _with_screenshots(crawler, browser, port)
    return {
        "screenshot_cpu_ms": 1000 * (with_picture_s - cpu_s / PAGES),
        "cpu_ms_a_page": 1000 * cpu_s / PAGES,
        "crawlers_cpu_ms": 1000 * own_s / PAGES,
        "pss_mib": most / 2**20,
        "pages_per_core_s": PAGES / cpu_s,
        "pages_per_s": PAGES / wall_s,
    }


async def _with_screenshots(crawler: _Crawler, browser: Browser, port: int) -> float:
    """Return the CPU seconds of a page with a screenshot of the window."""
    urls = [f"http://127.0.0.1:{port}/{n}" for n in range(PAGES)]

    async def work() -> None:
        while urls:
            await crawler.fetch(urls.pop(), screenshot="viewport")

    before = time.process_time() + browser.running.cpu_s()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return (time.process_time() + browser.running.cpu_s() - before) / PAGES


if __name__ == "__main__":
    Benchmark(
        name="render",
        about="Pages of twelve requests in a browser, four at a time: CPU time, memory, speed.",
        measure=measure,
        lines={
            "cpu_ms_a_page": Line(floor=400, goal=220, unit="ms"),
            "pss_mib": Line(floor=450, goal=300, unit="MiB"),
            "pages_per_core_s": Line(floor=2.5, goal=4.5, unit="", more=True),
            "screenshot_cpu_ms": Line(floor=120, goal=60, unit="ms"),
        },
        repetitions=2,
    ).main()
