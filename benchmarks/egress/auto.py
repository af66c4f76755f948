"""Compare the CPU time of a mixed web that is rendered where it needs it with rendering all of it.

Of eight sites, two send shells that scripts fill, three send pages that scripts take over, and
three plain pages. Two crawlers, one with a browser, fetch each page once; the CPU time is theirs
and their browser's, from their first request on. ``BENCH_PAGES`` is the number of pages of a site.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence

from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS
from lib.processes import CRAWLER, environment, own_kafka, running
from redis.asyncio import Redis

from crawling.render import tree
from crawlstream.bus.records import Record
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import IntakeBatch, Loss
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.request import RequestLimits
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.plugins.seeds import seed_fed
from crawlstream_chaos.scripted_site import HTML, Answer, Page, serving
from crawlstream_frontier.frontier import Frontier

PAGES = int(os.environ.get("BENCH_PAGES", "100"))
KINDS = ("shell", "taken over", "plain", "plain", "shell", "taken over", "taken over", "plain")
RULE = ThrottleRule(hits=1_000, window_s=1, concurrency=8)
_TEXT = "".join(f"<p>Paragraph {n} of a page that is like many others.</p>" for n in range(40))
_CRAWL = CrawlKey("link", "bench", "auto")
_LIMITS = RequestLimits()
_LOOK_S = 0.2
_PAGES_OF_SITES = PAGES * len(KINDS)


def _content(site: int, number: int) -> str:
    """Return what a person sees of a page; pages are a tree."""
    first = 4 * number + 1
    below = range(first, min(first + 4, PAGES))
    links = "".join(f'<a href="/{site}/{n}">page {n}</a> ' for n in below)
    return f"<h1>Page {number}</h1>{_TEXT}{links}"


def _document(kind: str, site: int, number: int) -> Answer:
    root, script = "<div id=root>{}</div>", f"<script src=/{site}.js></script>"
    body = {
        "shell": root.format("") + script,
        "taken over": root.format(_content(site, number)) + script,
        "plain": f"<main>{_content(site, number)}</main>",
    }[kind]
    return Answer(f"<!DOCTYPE html><html><body>{body}</body></html>".encode(), headers=HTML)


def _script(kind: str, site: int) -> Answer:
    contents = [_content(site, number) for number in range(PAGES)] if kind == "shell" else []
    fill = (
        f"const contents = {json.dumps(contents)}, number = +location.pathname.split('/')[2];"
        "const root = document.getElementById('root');"
        "if (contents.length) root.innerHTML = contents[number];"
        "else root.addEventListener('click', () => root.append('!'));"
    )
    return Answer(fill.encode(), headers={"Content-Type": "text/javascript"})


def _web() -> Mapping[str, Page]:
    pages: dict[str, Page] = {}
    for site, kind in enumerate(KINDS):
        pages |= {f"/{site}/{number}": _document(kind, site, number) for number in range(PAGES)}
        pages[f"/{site}.js"] = _script(kind, site)
    return pages


async def _open(redis: Redis) -> Frontier:
    """Return an empty frontier."""
    await redis.flushall()
    frontier = Frontier(redis, KEYS)
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    await frontier.pools.copy(PoolTable(czxid=1, mzxid=1))
    await frontier.rules.copy(ThrottleTable(default=RULE, czxid=1, mzxid=1))
    return frontier


async def _feed(frontier: Frontier, urls: Sequence[str], *, render: str | bool) -> None:
    fields = {"appid": _CRAWL.appid, "crawlid": _CRAWL.crawlid, "maxdepth": 99, "render": render}
    seeds = [
        seed_fed(request, Record("in", 0, at, 1, None, json.dumps(request).encode()), _LIMITS)
        for at, request in enumerate({**fields, "url": url} for url in urls)
    ]
    batch = IntakeBatch(topic_id="in", kafka_partition=0, start=0, next=len(seeds), records=seeds)
    await frontier.intake.apply(batch)


async def _until_ended(frontier: Frontier) -> int:
    """Wait for the end of the crawl, and return the number of its pages."""
    while True:
        await asyncio.sleep(_LOOK_S)
        await frontier.maintenance.tend()
        state = await frontier.queries.crawl_state(_CRAWL)
        if state and state.admitted > len(KINDS) and not (state.pending or state.held):
            return state.done


async def _crawl(redis: Redis, kafka: str, folder: str, *, render: str | bool) -> Figures:
    """Crawl the web by a crawler with a browser and one without."""
    with serving(_web()) as web:
        urls = [web.url(f"/{site}/0", f"127.0.1.{site + 1}") for site in range(len(KINDS))]
        frontier = await _open(redis)
        env = environment(redis, kafka, folder)
        with (
            running(*CRAWLER, folder=folder, **env) as plain,
            running(*CRAWLER, folder=folder, **env, CRAWLSTREAM_RENDER="true") as renderer,
        ):
            while await redis.zcard(KEYS.workers()) < 2:
                await asyncio.sleep(_LOOK_S)
            before, began = tree.cpu_s(plain) + tree.cpu_s(renderer), time.monotonic()
            await _feed(frontier, urls, render=render)
            pages = await _until_ended(frontier)
            took_s = time.monotonic() - began
            cpu_s = tree.cpu_s(plain) + tree.cpu_s(renderer) - before
        documents = [visit.path for visit in web.visits if not visit.path.endswith((".js", ".txt"))]
    return {
        "cpu_ms": 1000 * cpu_s / pages,
        "per_s": pages / took_s,
        "missing": _PAGES_OF_SITES - len(set(documents)),
        "documents": len(documents) / _PAGES_OF_SITES,
    }


async def measure(redis: Redis) -> Figures:
    """Measure a crawl that renders all pages, and one that renders those that need it."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            every = await _crawl(redis, kafka, folder, render=True)
            some = await _crawl(redis, kafka, folder, render="auto")
    return {
        "of_rendering_all": some["cpu_ms"] / every["cpu_ms"],
        **{f"auto_{name}": value for name, value in some.items()},
        **{f"all_{name}": value for name, value in every.items()},
    }


if __name__ == "__main__":
    Benchmark(
        name="auto",
        about="CPU time of a mixed web with automatic rendering ÷ with rendering all pages.",
        measure=measure,
        lines={
            "of_rendering_all": Line(floor=0.5, goal=0.35, unit=""),
            "auto_documents": Line(floor=1.15, goal=1.15, unit="a page"),
            "auto_missing": Line(floor=0, goal=0, unit="pages"),
        },
        repetitions=1,
    ).main()
