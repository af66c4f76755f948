"""Measure what reading directives and rights costs a crawler, on pages of 1 to 96 KB.

The share is that of the CPU time that a crawler takes for a page of 1 or 96 KB, in the same run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from lib.cpu_time import cpu_us
from lib.crawlers import Web, stage
from lib.harness import Benchmark, Figures, Line
from lib.instructions import ARGUMENT, counted, instructions
from redis.asyncio import Redis
from scrapy.http import HtmlResponse

from crawling.page.directives import directives_of
from crawling.page.head import head_of
from crawling.page.rights import rights_of

SIZES_KB = (1, 4, 16, 96)
WEBS = {1: Web(), 96: Web(links=200, size=96 * 1024, is_mixed=True)}
MEASURED_S = 6
AGENT = "examplebot"
_HEAD = (
    "<!doctype html><html lang=en><head><meta charset=utf-8><title>Harbour</title>"
    "<meta name=viewport content='width=device-width'><link rel=stylesheet href=/harbour.css>"
)
_ROBOTS = "<meta name=robots content='noindex, nofollow'>"
_PARAGRAPH = (
    "<p>The harbour opens early and closes when the last boat has left <a href='/mooring/{}'>its"
    " mooring</a> for the night: rope, anchor, chart, compass.</p>\n"
)
KINDS = {
    "": f"{_HEAD}</head>\n<body>",
    "_with_directives": f"{_HEAD}{_ROBOTS}</head>\n<body>",
    "_without_end_of_head": f"{_HEAD}<body>",
}


def reading(size_kb: int, kind: str) -> Callable[[], object]:
    """Return what reads a page of this size, nearly all of it a body, as a crawler does."""
    parts = [KINDS[kind], *(_PARAGRAPH.format(number) for number in range(size_kb * 7))]
    body = "".join(parts)[: size_kb * 1024].encode()
    headers = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "max-age=600"}
    response = HtmlResponse("http://a.example/", body=body, headers=headers)

    def read() -> None:
        head = head_of(response)
        directives_of(response, AGENT, head)
        rights_of(response, head, None, None)

    return read


async def measure(redis: Redis) -> Figures:
    """Measure the reading of each size and kind, and a crawler on two sizes."""
    found: dict[str, float] = {}
    for size_kb, pages in WEBS.items():
        async with stage(redis, pages, measured_s=MEASURED_S) as on:
            page_ms = (await on.cluster()).cpu_ms["crawler"]
        await redis.flushall()
        found[f"share_of_{size_kb}_kb"] = cpu_us(reading(size_kb, "")) / 1000 / page_ms
        found[f"crawler_ms_of_{size_kb}_kb"] = page_ms
    for kind in KINDS:
        for size_kb in SIZES_KB:
            found[f"us_of_{size_kb}_kb{kind}"] = cpu_us(reading(size_kb, kind))
    for size_kb in WEBS:
        if (count := instructions(__file__, str(size_kb))) is not None:
            found[f"instructions_of_{size_kb}_kb"] = count
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == [ARGUMENT]:
        counted(reading(int(sys.argv[3]), ""), int(sys.argv[2]))
    else:
        Benchmark(
            name="directives",
            about="CPU and instructions of reading directives and rights of a page, by its size;"
            " share of a crawler's CPU for such a page.",
            measure=measure,
            lines={
                "share_of_1_kb": Line(floor=0.02, goal=0.01, unit=""),
                "share_of_96_kb": Line(floor=0.01, goal=0.005, unit=""),
            },
            repetitions=1,
        ).main()
