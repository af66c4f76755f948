"""Pages from Kafka into JSON lines, a second of one pipeline's CPU."""

from __future__ import annotations

from lib.harness import Benchmark, Line
from lib.sinks import files_per_s

if __name__ == "__main__":
    Benchmark(
        name="sink-jsonl",
        about="Pages of 20 KB from Kafka into JSON lines (zstd), a second of one pipeline's CPU.",
        measure=lambda redis: files_per_s(redis, "jsonl.zst"),
        lines={"records_per_s": Line(floor=2_000, goal=3_500, unit="1/s", more=True)},
    ).main()
