"""A pipeline process at work: from a Kafka of its own into any sink, by the second of its CPU."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from lib.harness import Figures
from lib.pages import records
from lib.processes import TOPICS, cpu_s, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.errors import SetupError
from crawlstream_cli.local.ports import free_block

PIPELINE = (sys.executable, "-P", "-m", "pipeline_service", "run")
PAGES = 6_000
WARM_UP = 100
_A_LIST = 100
_DELIVERED = re.compile(
    r'^crawlstream_pipeline_records_total\{outcome="delivered".*\} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Running:
    """A pipeline that runs."""

    pid: int
    port: int
    kafka: str

    async def feed(self, pages: Sequence[Out]) -> None:
        """Results, acknowledged when it returns."""
        async with KafkaSink(Kafka([self.kafka])) as sink:
            for start in range(0, len(pages), _A_LIST):
                await sink.send(pages[start : start + _A_LIST])

    async def until(self, delivered: int) -> None:
        """Wait until ``delivered`` results have been stored permanently."""
        process = psutil.Process(self.pid)
        while await asyncio.to_thread(self._delivered) < delivered:
            if process.status() == psutil.STATUS_ZOMBIE:
                raise SetupError("the pipeline has ended: `crawlstream pipeline run` says why")
            await asyncio.sleep(0.05)

    def _delivered(self) -> int:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer,
        ):
            found = _DELIVERED.search(answer.read().decode())
            return int(float(found[1])) if found else 0
        return 0


@contextmanager
def pipeline(sink: str, folder: str, found: Mapping[str, str]) -> Iterator[Running]:
    """A pipeline process with this sink, for the length of the block."""
    file, port = Path(folder) / "pipelines.toml", free_block(1)
    file.write_text(f"[pipeline.bench]\nsink = {{{sink}}}\n")
    env = {
        **found,
        "CRAWLSTREAM_PIPELINES": str(file),
        "CRAWLSTREAM_SPOOL": str(Path(folder) / "spool"),
        "CRAWLSTREAM_METRICS_PORT": str(port),
    }
    with running(*PIPELINE, folder=folder, **env) as pid:
        yield Running(pid, port, found["KAFKA_HOSTS"])


@asynccontextmanager
async def carrying(redis: Redis, sink: str, *, folder: str = "") -> AsyncIterator[Running]:
    """Run a pipeline with its own Kafka; ``{folder}`` in ``sink`` is a temporary folder."""
    # The one before still counts as alive there, and would have to be described alike.
    await redis.flushall()
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as made:
        async with own_kafka(made) as kafka:
            described = sink.format(folder=folder or made)
            with pipeline(described, made, environment(redis, kafka, made)) as one:
                yield one


async def records_per_s(redis: Redis, sink: str) -> float:
    """Pages of 20 KB from Kafka into a sink, a second of the pipeline's CPU, threads included."""
    plain = [(each.value or b"") for each in records()]
    pages = [_out(number, plain[number % len(plain)]) for number in range(WARM_UP + PAGES)]
    async with carrying(redis, sink) as one:
        await one.feed(pages[:WARM_UP])
        await one.until(WARM_UP)
        spent_s = cpu_s(one.pid)
        await one.feed(pages[WARM_UP:])
        await one.until(len(pages))
        return PAGES / (cpu_s(one.pid) - spent_s)


async def files_per_s(redis: Redis, which: str) -> Figures:
    """Measure a pipeline into files of one format, which are complete within seconds."""
    sink = f'kind = "files", path = "{{folder}}/out", format = "{which}", max_age = "2s"'
    return {"records_per_s": await records_per_s(redis, sink)}


def _out(number: int, value: bytes) -> Out:
    """The page under an id of its own."""
    name = b"%032x" % number
    return Out(TOPICS.crawled, re.sub(rb'"id":"[0-9a-f]{32}"', b'"id":"%s"' % name, value), name)
