"""Measure the CPU time of stages for one page: pages of documentation, and what they say.

The least of many turns counts: other processes on the machine make a turn longer, never shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lib.harness import Benchmark, Figures, Line
from lib.webs import find_docs
from redis.asyncio import Redis

from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.language import LanguageModel
from crawlstream_extract.markdown import MarkdownOptions, markdown_of
from crawlstream_extract.markup import beginning
from crawlstream_extract.minhash import Sketches
from crawlstream_extract.scan import scanned

SIZES = {"10_kb": 10 * 1024, "71_kb": 71 * 1024}
TURNS = 60
URL = "http://127.0.0.1/3/library/page-17.html"


def _page_of(size: int) -> str:
    """The page of the documentation whose size is nearest."""
    pages = (path for path in Path(find_docs()).rglob("*.html") if path.is_file())
    return min(pages, key=lambda path: abs(path.stat().st_size - size)).read_text()


def _markdown(page: str) -> None:
    markdown_of(beginning(page)[0], Hrefs(URL, "utf-8"), MarkdownOptions())


def _least_ms(call: Callable[[], object]) -> float:
    spent = []
    for _ in range(TURNS):
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return min(spent) * 1000


async def measure(_: Redis) -> Figures:
    """Markdown of one page of each size, language and sketch of the larger one."""
    pages = {name: _page_of(size) for name, size in SIZES.items()}
    text = scanned(pages["71_kb"])
    return {
        **{f"markdown_ms_{name}": _least_ms(partial(_markdown, pages[name])) for name in pages},
        "language_ms": _least_ms(partial(LanguageModel().of, text)),
        "minhash_ms": _least_ms(partial(Sketches(3, 16).of, text)),
    }


if __name__ == "__main__":
    Benchmark(
        name="stages",
        about="CPU of the stages markdown, language and minhash for a page of documentation.",
        measure=measure,
        lines={
            "markdown_ms_10_kb": Line(floor=4, goal=1.3, unit="ms"),
            "markdown_ms_71_kb": Line(floor=20, goal=7, unit="ms"),
            "language_ms": Line(floor=4, goal=1.1, unit="ms"),
            "minhash_ms": Line(floor=8, goal=2, unit="ms"),
        },
        repetitions=1,
    ).main()
