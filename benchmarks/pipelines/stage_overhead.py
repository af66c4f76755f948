"""Measure the cost of worker processes: CPU per page with a stage that does nothing ÷ without.

The pages are stored as they are in either case, as JSON lines. What the workers themselves take is
reported too: they decode each page again.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil
from lib.harness import Benchmark, Figures, Line
from lib.pages import records
from redis.asyncio import Redis

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Batch, Record
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_sink
from pipeline_service.sinks.files.segments import Spool
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.staging import Staging

WORKERS = 2
_TOPIC = "5f0c2e9a-0000-4000-8000-000000000001"
_STAGE = f"""
workers = {WORKERS}
stage = [{{use = "where", python = "everything:wanted"}}]
"""


class Spent(NamedTuple):
    """Cost of one turn over all pages."""

    ours_s: float
    """CPU of the pipeline, threads included."""
    workers_s: float
    wall_s: float


def described(folder: str, stages: str) -> Pipeline:
    """A pipeline into JSON lines."""
    (Path(folder) / "everything.py").write_text("def wanted(page):\n    return True\n")
    sink = f'[pipeline.bench.sink]\nkind = "files"\npath = "{folder}/out"\nformat = "jsonl.zst"'
    return read(f"[pipeline.bench]\n{stages}\n{sink}", os.environ, Path(folder))["bench"]


async def turn(pages: list[Record], stages: str = "") -> Spent:
    """All pages through a pipeline."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        pipeline, live = described(folder, stages), Liveness("write")
        staging, spool = Staging(pipeline), Spool(Path(folder) / "spool")
        await staging.open()

        async def begin(_: int) -> None:
            return None

        sink = open_sink(load_settings(), pipeline, spool, begin=begin, shape=None)
        await sink.position(_TOPIC, 0)
        before, wall = Spent(time.process_time(), _workers_s(), 0), time.perf_counter()
        for part in Batch(_TOPIC, 0, 0, len(pages), pages).chunks(200):
            judged = await asyncio.to_thread(judge, pipeline, part)
            judged = await staging.run(judged, lambda _: None, lambda _: False)
            await sink.write(part, judged, live)
        await sink.end(live)
        ours_s = time.process_time() - before.ours_s
        took = Spent(ours_s, _workers_s() - before.workers_s, time.perf_counter() - wall)
        assert sink.standings[0].account.total.delivered == len(pages)
        await staging.close()
        spool.close()
    return took


def _workers_s() -> float:
    """Return the CPU seconds of running child processes."""
    times = [child.cpu_times() for child in psutil.Process().children()]
    return sum(each.user + each.system for each in times)


async def measure(_: Redis) -> Figures:
    """Without, with, on the same pages."""
    pages = records()
    without, with_it = await turn(pages), await turn(pages, _STAGE)
    return {
        "without_of_with": without.ours_s / with_it.ours_s,
        "us_a_page_without": without.ours_s / len(pages) * 1e6,
        "us_a_page_with": with_it.ours_s / len(pages) * 1e6,
        "us_a_page_workers": with_it.workers_s / len(pages) * 1e6,
        "pages_per_s_without": len(pages) / without.wall_s,
        "pages_per_s_with": len(pages) / with_it.wall_s,
    }


if __name__ == "__main__":
    Benchmark(
        name="stage-overhead",
        about=f"CPU of a pipeline a page, without stages ÷ with one in {WORKERS} workers.",
        measure=measure,
        lines={"without_of_with": Line(floor=0.85, goal=0.95, unit="", more=True)},
    ).main()
