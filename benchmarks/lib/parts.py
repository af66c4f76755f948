"""Measure the cost of a page by part of the crawler process, as ``lib.sampling`` divides it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lib.crawlers import Stage
from lib.harness import Figures

MODULES = "lib.quiet,lib.sampling"


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A crawler process that samples itself for as long as it is measured."""

    path: Path

    async def turn_over(self, pids: Sequence[int]) -> None:
        """Let it begin; the second time, wait for what it has to say."""
        was_begun = self.path.with_suffix(".begun")
        for pid in pids:
            os.kill(pid, signal.SIGUSR2)
        if not was_begun.exists():
            was_begun.touch()
            return
        while not self.path.exists():
            await asyncio.sleep(0.01)

    def parts_ms(self, crawler_ms: float) -> Figures:
        """CPU a page by part, of so much in all."""
        seconds = json.loads(self.path.read_text())
        whole = seconds.pop("all")
        return {part: crawler_ms * each / whole for part, each in seconds.items()}


async def by_part(on: Stage, way: str) -> Figures:
    """Measure ``engine`` or ``lane`` once: ms of CPU per page."""
    sampled = _Sampled(Path(on.folder) / f"{way}.json")
    await on.prepare()
    env = {
        **on.environment,
        "CRAWLSTREAM_FETCH": way,
        "CRAWLSTREAM_SPIDER_MODULES": MODULES,
        "BENCH_SAMPLES": str(sampled.path),
    }
    crawler = (sys.executable, "-P", "-m", "crawling", "link")
    speed = await on.speed(crawler, env=env, at_the_edges=sampled.turn_over)
    parts = sampled.parts_ms(speed.cpu_ms["crawler"])
    whole = {"whole worker": speed.cpu_ms["crawler"], "redis": speed.cpu_ms["redis"]}
    return {f"{way}: {part}": value for part, value in {**parts, **whole}.items()}
