"""Compare the CPU time of a page for a worker whose crawl is watched by the waste guard.

The added time is that of a page in this process, the least of many turns: some percent of a page
cannot be seen by the clock of a worker while other processes run. It is compared with the CPU time
of a whole worker for pages of that size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from crawl import MEASURED_S
from lib.crawlers import stage
from lib.harness import Benchmark, Figures, Line
from lib.webs import Web, find_docs
from redis.asyncio import Redis
from scrapy.http import HtmlResponse

from crawling.page.page_traits import read_traits
from crawling.page.parsed_page import ParsedPage

URL = "http://127.0.0.1/3/library/page-17.html"
SIZE = 20 * 1024
TURNS = 300


def _page_of(size: float) -> HtmlResponse:
    """The page of the documentation whose size is nearest."""
    pages = (path for path in Path(find_docs()).rglob("*.html") if path.is_file())
    nearest = min(pages, key=lambda path: abs(path.stat().st_size - size))
    return HtmlResponse(URL, body=nearest.read_bytes(), encoding="utf-8")


def _least_ms(call: Callable[[], object]) -> float:
    spent = []
    for _ in range(TURNS):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return min(spent) * 1000


def _added_ms(size: float) -> float:
    """Return the time for signature and canonical URL of a page that is parsed already."""
    response = _page_of(size)
    reading = ParsedPage(response)
    return _least_ms(lambda: read_traits(response, reading).text_signature)


async def measure(redis: Redis) -> Figures:
    """Measure a worker on either web, and what reading the traits of a page of that size adds."""
    webs = {"20_kb": Web(size=SIZE, is_mixed=True), "manual": Web(is_real=True)}
    figures: dict[str, float] = {}
    for name, web in webs.items():
        async with stage(redis, web, measured_s=MEASURED_S) as on:
            speed = await on.cluster()
        await redis.flushall()
        size = speed.bytes_per_s / speed.pages_per_s or SIZE
        worker_ms, added_ms = speed.cpu_ms["crawler"], _added_ms(size)
        figures |= {
            f"watch_of_off_{name}": (worker_ms + added_ms) / worker_ms,
            f"added_ms_{name}": added_ms,
            f"worker_ms_{name}": worker_ms,
            f"kb_{name}": size / 1024,
        }
    return figures


if __name__ == "__main__":
    Benchmark(
        name="quality-cpu",
        about="CPU of a worker for a page with its text signature, beside that without.",
        measure=measure,
        lines={
            "watch_of_off_20_kb": Line(floor=1.06, goal=1.03, unit=""),
            "watch_of_off_manual": Line(floor=1.06, goal=1.03, unit=""),
        },
        repetitions=2,
    ).main()
