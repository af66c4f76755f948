"""A process that writes a fixed topic by the sink of files, and dies where FAILPOINT says.

    python -m support.pipelines.writer URL FORMAT

Its source is a list in place of Kafka: what the sink makes of a death is no matter of groups.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch, Record
from crawlstream.formats.files import Crawl
from crawlstream.store.store import Store
from pipeline_service.config import FilesSink as Config
from pipeline_service.config import Pipeline
from pipeline_service.files_sink import FilesSink
from pipeline_service.judging import judge
from pipeline_service.segments import Spool
from pipeline_service.where import Where
from support.pipelines.objects import register
from support.pipelines.results import record

TOPIC = "5f0c2e9a-0000-4000-8000-000000000001"
PAGES = 45
_BATCH = 7
_SEGMENT = 6


def values() -> Sequence[bytes]:
    """Of the records of the topic: pages, some twice, some of another day, some that are none."""
    pages = [record(n, timestamp=1795251154.0 + 86_400 * (n % 2)) for n in range(PAGES)]
    pages[10:10] = [pages[3], b"no page", record(900, status_code=404)]
    pages[30:30] = [pages[1], pages[29]]
    return [*pages, b"{}", pages[0]]


def batches(start: int) -> Sequence[Batch]:
    """The topic from an offset on."""
    records = [
        Record("t", 0, offset, 1795251154000 + offset, None, value)
        for offset, value in enumerate(values())
    ][start:]
    whole = Batch(TOPIC, 0, start, len(values()), records)
    return list(whole.chunks(_BATCH))


def pipeline(url: str, which: str) -> Pipeline:
    """Files of few records."""
    sink = Config(path=url, format=which, max_records=_SEGMENT, max_age=3600)
    return Pipeline(name="p", sink=sink, where=Where(status=frozenset({200})))


async def write(url: str, which: str, spool: Path) -> None:
    """Write the topic to its end."""
    asked, live = pipeline(url, which), Liveness("write")

    async def begin(_: int) -> None:
        return None

    sink = FilesSink(asked, Store.at(url), Spool(spool), begin=begin, crawl=Crawl("test"))
    position: int | None = await sink.position(TOPIC, 0) or 0
    while position is not None:
        start, position = position, None
        for batch in batches(start):
            position = await sink.write(batch, judge(asked, batch), live)
            if position is not None:
                break
    await sink.end(live)


if __name__ == "__main__":
    register()
    asyncio.run(write(sys.argv[1], sys.argv[2], Path(os.environ["SPOOL"])))
