"""Shared parts of every benchmark: a Redis of its own, a yardstick of the minute, one report.

Absolute figures vary with the machine; the yardstick shows how calm it was. The main figure is
Redis' own CPU time, which other processes disturb least; wall-clock time is reported too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table

from crawlstream.errors import SetupError
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.local import servers
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.probes import PROBES

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Goal of one figure; ``more``: whether more is better."""

    floor: float
    goal: float
    unit: str
    more: bool = False

    def met(self, value: float) -> str:
        """``goal``, ``floor`` or ``no``."""
        sign = 1 if self.more else -1
        if sign * value >= sign * self.goal:
            return "goal"
        return "floor" if sign * value >= sign * self.floor else "no"


@dataclass(slots=True)
class Cost:
    """Redis' cost while a ``measured`` block ran."""

    wall_s: float = 0
    cpu_us: float = 0
    """CPU time of Redis' main thread, including networking."""
    script_us: float = 0
    """Inside the operations, by the wall."""
    calls: float = 0
    """Commands that clients sent."""


@asynccontextmanager
async def measured(redis: Redis) -> AsyncIterator[Cost]:
    """Fills in the cost of the block when it ends."""
    cost = Cost()
    before, began = await _spent(redis), time.perf_counter()
    yield cost
    cost.wall_s = time.perf_counter() - began
    after = await _spent(redis)
    cost.cpu_us = (after[0] - before[0]) * 1e6
    cost.script_us = after[1] - before[1]
    cost.calls = int(after[2] - before[2])


async def _spent(redis: Redis) -> tuple[float, float, float]:
    info = await redis.info("everything")
    cpu = info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
    script = info.get("cmdstat_evalsha", {"usec": 0, "calls": 0})
    # Commands that a script ran are counted under their own names: EVALSHA is what was sent.
    return float(cpu), float(script["usec"]), float(script["calls"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named benchmark: how to measure once, and what its figures should reach."""

    name: str
    about: str
    measure: Callable[[Redis], Awaitable[Figures]]
    lines: Mapping[str, Line]
    repetitions: int = 3

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Run from the command line, or by these arguments."""
        parser = argparse.ArgumentParser(
            prog=f"crawlstream bench {self.name}", description=self.about
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")
        parser.add_argument("-n", type=int, default=self.repetitions, help="repetitions")
        options = parser.parse_args(argv)
        try:
            report = until_signal(self._run(options.n))
        except SetupError as error:
            raise SystemExit(f"crawlstream bench {self.name}: {error}") from None
        except typer.Exit as ended:
            raise SystemExit(ended.exit_code) from None
        self._print(report)
        if options.json:
            print(json.dumps(report))

    async def _run(self, repetitions: int) -> dict[str, object]:
        runs: list[Figures] = []
        async with own_redis() as redis:
            calm = await yardstick(redis)
            for _ in range(repetitions):
                await redis.flushall()
                runs.append(await self.measure(redis))
        figures = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        verdicts = {line.met(figures[name]) for name, line in self.lines.items()}
        return {
            "name": self.name,
            "figures": {name: round(value, 3) for name, value in figures.items()},
            "floor": {name: line.floor for name, line in self.lines.items()},
            "goal": {name: line.goal for name, line in self.lines.items()},
            "met": next((word for word in ("no", "floor") if word in verdicts), "goal"),
            "n": repetitions,
            "yardstick": calm,
        }

    def _print(self, report: Mapping[str, object]) -> None:
        table = Table("figure", "measured", "floor", "goal", "unit", title=self.about)
        figures: Figures = report["figures"]  # type: ignore[assignment]
        for name, value in figures.items():
            line = self.lines.get(name)
            target = (f"{line.floor:,g}", f"{line.goal:,g}", line.unit) if line else ()
            table.add_row(name, f"{value:,.2f}", *target)
        console = Console()
        console.print(table)
        console.print(f"met: {report['met']}   n: {report['n']}   yardstick: {report['yardstick']}")


@asynccontextmanager
async def own_redis() -> AsyncIterator[Redis]:
    """A client of a Redis on a free port, without a log, in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        server = servers.redis(Path(folder), port=free_block(1))
        argv = [*server.argv, "--appendonly", "no", "--maxmemory", "0"]
        with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL) as process:
            try:
                while not PROBES["redis"](server.port):
                    await asyncio.sleep(0.02)
                async with Redis(port=server.port, socket_timeout=60) as client:
                    yield client
            finally:
                process.kill()


async def yardstick(redis: Redis) -> Figures:
    """Return how fast this Redis is right now at plain SET and LPUSH, 32 of them in a pipeline."""
    port = redis.connection_pool.connection_kwargs["port"]
    argv = ["redis-benchmark", "-p", str(port), "-P", "32", "-n", "200000", "-t", "set,lpush"]
    process = await asyncio.create_subprocess_exec(*argv, "--csv", stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    rows = [line.replace('"', "").split(",") for line in output.decode().splitlines()[1:]]
    return {f"redis_{row[0].lower()}_per_s": float(row[1]) for row in rows}
