"""Pages from Kafka into a Delta table, by a pipeline's CPU; and commits to one log."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from lib.harness import Benchmark, Figures, Line
from lib.sinks import records_per_s
from redis.asyncio import Redis

from pipeline_service.formats.columns import COLUMNS
from pipeline_service.sinks.lake.delta import DeltaLake
from pipeline_service.sinks.lake.table import LakeCommit, LakePosition
from pipeline_service.spec.lake import DeltaSpec

_SINK = 'kind = "delta", url = "{folder}/table", body = "bytes", max_age = "5s"'
_PAGE_MB = 0.02
_COMMITS = 500


def commits_per_s() -> float:
    """Commits of one process, one after the other, while the log grows."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        table, last = DeltaLake(DeltaSpec(url=str(Path(folder) / "table")), columns=COLUMNS), None
        table.open()
        began = time.perf_counter()
        for number in range(_COMMITS):
            position = LakePosition.new(number)
            commit = LakeCommit(name="p", expected=last, position=position, files=(), about={})
            assert table.commit(commit)
            last = position
        return _COMMITS / (time.perf_counter() - began)


async def measure(redis: Redis) -> Figures:
    """Pages with their bodies."""
    per_s = await records_per_s(redis, _SINK)
    return {
        "records_per_s": per_s,
        "mb_per_min": per_s * _PAGE_MB * 60,
        "commits_per_s": commits_per_s(),
    }


if __name__ == "__main__":
    Benchmark(
        name="sink-delta",
        about="Pages of 20 KB from Kafka into a Delta table, a second and a minute of one"
        " pipeline's CPU; commits to one log.",
        measure=measure,
        lines={
            "records_per_s": Line(floor=1_000, goal=2_000, unit="1/s", more=True),
            "mb_per_min": Line(floor=1_200, goal=2_400, unit="MB/min", more=True),
            "commits_per_s": Line(floor=5, goal=50, unit="1/s", more=True),
        },
    ).main()
