"""RAM that a pipeline takes at most while all of its records are as large as records may be."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

from lib.harness import Benchmark, Figures, Line
from lib.pages import PAGE
from lib.processes import TOPICS
from lib.sinks import carrying
from redis.asyncio import Redis

from crawlstream.bus.records import Out
from crawlstream.wire.results import encode_result

PAGES = 40
LARGEST_BYTES = 8 * 1024 * 1024
_LETTERS = b"abcdefghijklmnopqrstuvwxyz <>/=\n"
_FORMATS = ("jsonl.zst", "warc.gz", "parquet")


def large(number: int) -> Out:
    """A page whose record is a little smaller than 8 MiB."""
    chosen = random.Random(number)
    body = bytes(chosen.choices(_LETTERS, k=LARGEST_BYTES // 8)) * 8
    page = replace(PAGE, id=f"{number:032x}", body=body[: LARGEST_BYTES - 300_000])
    return Out(TOPICS.crawled, encode_result(page), page.id.encode())


async def most_mib(redis: Redis, which: str, pages: list[Out]) -> float:
    """Return the most memory, in MiB, of a pipeline into files."""
    sink = f'kind = "files", path = "{{folder}}/out", format = "{which}", max_age = "5s"'
    async with carrying(redis, sink) as one:
        for page in pages:
            await one.feed([page])
        await one.until(len(pages))
        return _most_resident(one.pid) / 1024


def _most_resident(pid: int) -> int:
    """KiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


async def measure(redis: Redis) -> Figures:
    """Each format."""
    pages = [large(number) for number in range(PAGES)]
    found = {
        f"{which.split('.')[0]}_mib": await most_mib(redis, which, pages) for which in _FORMATS
    }
    return {"most_mib": max(found.values()), **found}


if __name__ == "__main__":
    Benchmark(
        name="sink-memory",
        about="RAM that one pipeline process takes at most for records of 8 MiB, by format.",
        measure=measure,
        lines={"most_mib": Line(floor=768, goal=512, unit="MiB")},
        repetitions=1,
    ).main()
