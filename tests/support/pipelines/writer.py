"""Process that writes a fixed topic by any sink, and may die at its failpoints.

Its source is a list in place of Kafka: consumer groups do not change how a sink recovers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from crawlstream.boot import failpoints
from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Batch, Record
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_sink
from pipeline_service.sinks.files.segments import Spool
from pipeline_service.sinks.sink import PageSink
from pipeline_service.spec.config import Pipeline, read
from support.pipelines.objects import register
from support.pipelines.results import record

TOPIC = "5f0c2e9a-0000-4000-8000-000000000001"
PAGES = 45
_BATCH = 7
_CATALOG = '[iceberg.test]\ntype = "sql"\nuri = "sqlite:///${CATALOG}"\n'


def values() -> Sequence[bytes]:
    """Return the records of the topic: pages, some twice, some of another day, some invalid."""
    pages = [record(n, timestamp=1795251154.0 + 86_400 * (n % 2)) for n in range(PAGES)]
    pages[10:10] = [pages[3], b"no page", record(900, status_code=404)]
    pages[30:30] = [pages[1], pages[29]]
    return [*pages, b"{}", pages[0], record(900, status_code=404)]


def batch_of(records: Sequence[bytes | None], start: int = 0) -> Batch:
    """Records of the topic from an offset on."""
    made = [
        Record("t", 0, offset, 1795251154000 + offset, None, value)
        for offset, value in enumerate(records, start)
    ]
    return Batch(TOPIC, 0, start, start + len(records), made)


def pipeline(sink: str, more: str = "") -> Pipeline:
    """Return a pipeline whose sink is this table."""
    where = "" if "where" in more else 'where = {status = ["200"]}'
    catalog = _CATALOG if 'kind = "iceberg"' in sink else ""
    text = f"{catalog}[pipeline.p]\n{where}\nsink = {{{sink}}}\n{more}"
    return read(text, os.environ)["p"]


@asynccontextmanager
async def sink_of(
    asked: Pipeline, folder: Path, start: int | None = None
) -> AsyncIterator[PageSink]:
    """The sink of a pipeline; while nothing is stored, it begins at ``start``."""

    async def begin(_: int) -> int | None:
        return start

    spool = Spool(folder)
    try:
        sink = open_sink(load_settings(), asked, spool, begin=begin, shape=None)
        try:
            yield sink
        finally:
            await sink.end(Liveness("write"))
    finally:
        spool.close()


async def write(
    asked: Pipeline, spool: Path, records: Callable[[], Sequence[bytes]] = values
) -> None:
    """Write the topic to its end."""
    live = Liveness("write")
    async with sink_of(asked, spool) as sink:
        position: int | None = await sink.position(TOPIC, 0) or 0
        while position is not None:
            batches = batch_of(records()[position:], position).chunks(_BATCH)
            position = None
            for batch in batches:
                position = await sink.write(batch, judge(asked, batch), live)
                if position is not None:
                    break


def run(env: Mapping[str, str]) -> None:
    """Be a process that writes by the sink of SINK, and dies where FAILPOINT says."""
    os.environ.update(env)
    sys.path[:0] = filter(None, [env.get("SINK_SITE")])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    failpoints.set_up(os.environ["FAILPOINT"])
    register()
    asyncio.run(write(pipeline(os.environ["SINK"]), Path(os.environ["SPOOL"])))
