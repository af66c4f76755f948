"""``crawlstream bench``: speed and size of critical parts, relative to a yardstick measured now."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from crawlstream_cli.local.home import checkout


class Name(StrEnum):
    """The benchmarks, each a file in or below ``benchmarks/``."""

    FRONTIER = "frontier"
    PAGE = "page"
    PUT = "put"
    MEMORY = "memory"
    IDLE = "idle"
    CALLS = "calls"
    INFO = "info"
    CRAWL = "crawl"
    CRAWL50 = "crawl50"
    CPU = "cpu"
    INGEST = "ingest"
    LATENCY = "latency"
    SCRAPE = "scrape"
    CROWD = "crowd"
    PRIORITY = "priority"
    SCALE = "scale"
    OUTPUT = "output"
    POLITE = "polite"
    GENTLE = "gentle"
    GATES = "gates"
    REST = "rest"
    BROAD = "broad"
    HOSTILE = "hostile"
    SINK_JSONL = "sink-jsonl"
    SINK_PARQUET = "sink-parquet"
    SINK_WARC = "sink-warc"
    SINK_DELTA = "sink-delta"
    SINK_SQL = "sink-sql"
    SINK_KAFKA = "sink-kafka"
    SINK_DELAY = "sink-delay"
    SINK_MEMORY = "sink-memory"
    SINK_COST = "sink-cost"
    STAGE_OVERHEAD = "stage-overhead"
    STAGES = "stages"
    SCHEDULE_LATE = "schedule-late"
    OCCASION = "occasion"
    PROXIED = "proxied"
    PROXIES = "proxies"
    DIRECT = "direct"
    TLS = "tls"
    SIGNED = "signed"
    DIRECTIVES = "directives"
    RENDER = "render"
    AUTO = "auto"
    REQUISITES = "requisites"
    VISITS = "visits"
    FRESHNESS = "freshness"
    SHELVES = "shelves"
    PARTITIONS = "partitions"
    LINKS = "links"
    QUALITY_COST = "quality-cost"
    QUALITY_CPU = "quality-cpu"
    WASTE = "waste"
    ORDER = "order"
    FARM = "farm"
    ENDINGS = "endings"


def bench(
    name: Annotated[Name, typer.Argument(metavar="NAME", help="Benchmark to run.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one line of JSON at the end.")
    ] = False,
    repetitions: Annotated[
        int | None, typer.Option("-n", min=1, help="Number of repetitions; medians are reported.")
    ] = None,
    domains: Annotated[
        int | None, typer.Option(min=1, help="Only for `polite`: number of domains.")
    ] = None,
) -> None:
    """Run one benchmark on its own servers and compare the result with its baseline and its goal.

    Example: crawlstream bench frontier --json
    """
    options = ["--json"] if as_json else []
    if repetitions is not None:
        options += ["-n", str(repetitions)]
    if domains is not None:
        options += ["--domains", str(domains)]
    folder = checkout("benchmarks")
    (file,) = folder.rglob(f"{name.replace('-', '_')}.py")
    paths = (str(folder), os.environ.get("PYTHONPATH"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    argv = (sys.executable, str(file), *options)
    # In place of this process, so that whatever ends the command ends the benchmark.
    os.execve(sys.executable, argv, environment)  # noqa: S606  no shell
