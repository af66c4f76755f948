"""Pages of 20 KB into files by one pipeline, a second of its CPU: decoded, written, put."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from lib.harness import Benchmark, Figures, Line
from lib.pages import records
from redis.asyncio import Redis

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch, Record
from crawlstream.formats.files import Crawl
from crawlstream.store.store import Store
from pipeline_service.config import FilesSink as Config
from pipeline_service.config import Pipeline
from pipeline_service.files_sink import FilesSink
from pipeline_service.judging import judge
from pipeline_service.segments import Spool

_TOPIC = "5f0c2e9a-0000-4000-8000-000000000001"


async def pages_per_s(which: str, pages: list[Record]) -> float:
    """Of this process' CPU, threads included; what Kafka's client takes is not among it."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        config = Config(path=f"{folder}/out", format=which)
        pipeline, live = Pipeline(name="bench", sink=config), Liveness("write")

        async def begin(_: int) -> None:
            return None

        spool = Spool(Path(folder) / "spool")
        store = Store.at(config.path)
        sink = FilesSink(pipeline, store, spool, begin=begin, crawl=Crawl("bench"))
        await sink.position(_TOPIC, 0)
        began = time.process_time()
        for part in Batch(_TOPIC, 0, 0, len(pages), pages).chunks(200):
            await sink.write(part, await asyncio.to_thread(judge, pipeline, part), live)
        await sink.end(live)
        took_s = time.process_time() - began
        spool.close()
    return len(pages) / took_s


async def measure(_: Redis) -> Figures:
    """Each format, on the same pages."""
    pages = records()
    return {
        "jsonl_zst_per_s": await pages_per_s("jsonl.zst", pages),
        "parquet_per_s": await pages_per_s("parquet", pages),
        "warc_per_s": await pages_per_s("warc.gz", pages),
    }


if __name__ == "__main__":
    Benchmark(
        name="sink",
        about="Pages of 20 KB into files, a second of one pipeline's CPU.",
        measure=measure,
        lines={
            "jsonl_zst_per_s": Line(floor=2_000, goal=3_500, unit="1/s", more=True),
            "parquet_per_s": Line(floor=1_000, goal=2_000, unit="1/s", more=True),
            "warc_per_s": Line(floor=500, goal=900, unit="1/s", more=True),
        },
    ).main()
