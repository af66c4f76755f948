"""Measure a memory's cost to its pipeline: results learnt and due pages claimed.

In PostgreSQL, with a row for each of 300,000 pages. Counted is the CPU of this process, which does
what the pipeline's does, and not that of the server.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from lib.harness import Benchmark, Figures, Line
from redis.asyncio import Redis

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Batch, Record
from crawlstream_chaos.stores.postgres import postgres
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_sink, open_visits
from pipeline_service.sinks.files.segments import Spool
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.visit_requests import encode_visits

PAGES, LEARNT, A_BATCH = 300_000, 60_000, 200
CLAIMS = 60
_TOPIC = "5f0c2e9a-0000-4000-8000-000000000001"
_BODY = "<p>" + "All that is to be read of a page is here. " * 20
AGO_S = 20 * 86_400


def _result(number: int, turn: int) -> bytes:
    """Return a crawler's result of a page: one in three has changed."""
    url = f"http://{number % 1_000}.example.com/articles/2026/11/{number:08d}"
    at = time.gmtime(time.time() - AGO_S + turn * 86_400 + number / PAGES)
    version = turn if number % 3 == 0 else 0
    return orjson.dumps(
        {
            "id": f"{turn:08x}{number:024x}",
            "appid": "bench",
            "crawlid": "bench",
            "spiderid": "link",
            "run": 1,
            "url": url,
            "response_url": url,
            "status_code": 200,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", at),
            "body": _BODY,
            "encoding": "utf-8",
            "digest": f"sha256:{version:064x}",
            "request_headers": {},
            "response_headers": {"Content-Type": ["text/html"], "ETag": [f'"{version}"']},
        }
    )


async def _cost_s(pipeline: Pipeline, folder: Path, turn: int, numbers: list[int]) -> float:
    """CPU of this process for results from the record to the row."""

    async def begin(_: int) -> int | None:
        return None

    spool = Spool(folder)
    sink = open_sink(load_settings(), pipeline, spool, begin=begin, shape=None)
    start = await sink.position(_TOPIC, 0) or 0
    took_s, live = 0.0, Liveness("write")
    for at in range(0, len(numbers), A_BATCH):
        values = [_result(number, turn) for number in numbers[at : at + A_BATCH]]
        records = [Record("t", 0, start + at + n, 0, None, v) for n, v in enumerate(values)]
        batch = Batch(_TOPIC, 0, start + at, start + at + len(records), records)
        before = time.process_time()
        await sink.write(batch, judge(pipeline, batch), live)
        took_s += time.process_time() - before
    await sink.end(live)
    spool.close()
    return took_s


def _claimed(pipeline: Pipeline) -> tuple[int, float, float]:
    """Pages that were claimed and made seeds: how many, CPU seconds, seconds by the wall."""
    assert isinstance(pipeline.sink, PagesSink)
    store = open_visits(pipeline, pipeline.sink)
    store.course()
    pages, before, began = 0, time.process_time(), time.perf_counter()
    for _ in range(CLAIMS):
        claim = store.claim("bench")
        if claim is None:
            raise SystemExit("nothing is due")
        pages += len(list(encode_visits(claim.crawl, claim.visits)))
        store.fed(claim)
    took = time.process_time() - before, time.perf_counter() - began
    store.close()
    return pages, *took


def _within(url: str, text: str) -> Pipeline:
    return read(
        f'[pipeline.bench]\nsink = {{kind = "pages", url = "{url}", signature = "body"}}\n{text}',
        {},
    )["bench"]


async def measure(redis: Redis) -> Figures:
    """A first turn fills the memory; the second learns of some of the pages again."""
    del redis
    chance = random.Random(7)
    with postgres() as server, tempfile.TemporaryDirectory() as folder:
        url = server.make_database("bench")
        pipeline = _within(url, "visits = {in_flight = 1_000_000}")
        everything = list(range(PAGES))
        chance.shuffle(everything)
        enter_s = await _cost_s(pipeline, Path(folder), 0, everything)
        learn_s = await _cost_s(pipeline, Path(folder), 1, everything[:LEARNT])
        due: Callable[[Pipeline], tuple[int, float, float]] = _claimed
        pages, claim_s, wall_s = await asyncio.to_thread(due, pipeline)
    return {
        "learnt_per_s": LEARNT / learn_s,
        "claimed_per_s": pages / claim_s,
        "entered_per_s": PAGES / enter_s,
        "claimed_by_the_wall_per_s": pages / wall_s,
    }


if __name__ == "__main__":
    Benchmark(
        name="visits",
        about="Results learnt by a memory of 300,000 pages in PostgreSQL, and due pages made seeds,"
        " a second of the client's CPU.",
        measure=measure,
        lines={
            "learnt_per_s": Line(floor=3_000, goal=8_000, unit="1/s", more=True),
            "claimed_per_s": Line(floor=3_000, goal=10_000, unit="1/s", more=True),
        },
        repetitions=1,
    ).main()
