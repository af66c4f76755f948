"""A frontier of any number of partitions under test, in the words of ``support.frontier.bench``.

Seeds, workers and monitors call each partition as they call a frontier of one: the scripts that
pass links and endings between partitions are not called here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream.model.crawl import Lease
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.url import domain_key, host_of
from crawlstream_frontier.partitions.frontiers import Frontiers
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, open_bench


@dataclass(frozen=True)
class DividedBench:
    """A bench for each partition, in their order."""

    frontiers: Frontiers
    benches: Sequence[Bench]

    def partition_of(self, url: str) -> int:
        """Where a URL, as ``<domain>/<path>``, has its place."""
        return self.frontiers.partitions.of(domain_key(host_of(f"http://{url}")))

    def of(self, url: str) -> Bench:
        """The bench of the partition that has a URL."""
        return self.benches[self.partition_of(url)]

    def domains(self, each: int = 1) -> list[str]:
        """Return ``each`` domains of every partition, in the order of the partitions."""
        found: dict[int, list[str]] = {p: [] for p in range(len(self.benches))}
        number = 0
        while any(len(of) < each for of in found.values()):
            name = f"d{number}.example"
            found[self.partition_of(name)].append(name)
            number += 1
        return [name for of in found.values() for name in of[:each]]

    async def seeds(self, *urls: str, **how: Any) -> None:
        """Feed these URLs, each to the partition of its domain."""
        for url in urls:
            await self.of(url).feed.seeds(url, **how)

    async def lease(self, want: int = 1) -> list[tuple[Bench, Lease]]:
        """Up to ``want`` pages of each partition, with whom they are settled."""
        return [
            (bench, lease) for bench in self.benches for lease in await bench.worker.lease(want)
        ]

    async def crawl_all(self) -> list[str]:
        """Lease and settle until nothing is due anywhere; return the URLs, sorted."""
        return sorted([url for bench in self.benches for url in await bench.worker.crawl_all()])

    async def rule(self, default: ThrottleRule = WIDE_OPEN, **rules: ThrottleRule) -> None:
        """Let this table rule everywhere."""
        for bench in self.benches:
            await bench.rule(default, rules)

    async def advance(self, ms: int) -> None:
        """Let time pass on all frontier clocks."""
        for bench in self.benches:
            await bench.advance(ms)

    async def tend(self) -> None:
        """Care until nothing more is due anywhere."""
        for bench in self.benches:
            await bench.tend()

    async def state(self) -> CrawlState:
        """The ledger of the crawl, of all partitions."""
        state = await self.frontiers.queries.crawl_state(CRAWL)
        assert state is not None
        assert state.residual == 0
        return state


async def open_divided_bench(frontiers: Frontiers) -> DividedBench:
    """Benches for partitions that were created and are empty."""
    benches = [
        await open_bench(frontier.scripts.redis, keys=frontier.scripts.keys)
        for frontier in frontiers
    ]
    return DividedBench(frontiers, benches)
