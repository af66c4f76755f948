"""Pages from Kafka into Parquet, a second of one pipeline's CPU."""

from __future__ import annotations

from lib.harness import Benchmark, Line
from lib.sinks import files_per_s

if __name__ == "__main__":
    Benchmark(
        name="sink-parquet",
        about="Pages of 20 KB from Kafka into Parquet, a second of one pipeline's CPU.",
        measure=lambda redis: files_per_s(redis, "parquet"),
        lines={"records_per_s": Line(floor=1_000, goal=2_000, unit="1/s", more=True)},
    ).main()
