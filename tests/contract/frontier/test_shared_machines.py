"""Domains of all partitions on one machine: each partition has a share of the machine's limit."""

from __future__ import annotations

import pytest

from crawlstream.errors import BadTable
from crawlstream.model.crawl import Lease
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_frontier.reckoning import Reckoning
from support.frontier.bench import WIDE_OPEN, url_of
from support.partitions.bench import DividedBench
from support.windows import AT_HOME, Machine, bursts, by_address, check_windows

LIMIT = bursts(6, 1, 6)


async def test_partitions_share_the_limit_of_an_address(
    bench: DividedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of all of them together keep to it, and use all of it while each has pages."""
    monkeypatch.setattr(Reckoning, "known", lambda _: (0, 0))
    elapsed_ms, each = 0, 8

    async def clock() -> int:
        return elapsed_ms

    table = ThrottleTable(default=WIDE_OPEN, groups=by_address(LIMIT), czxid=1, mzxid=9)
    assert await bench.frontiers.rules.copy(table)
    names = bench.domains(each=each)
    urls = [f"{name}/{n}" for name in names for n in range(2)]
    await bench.seeds(*urls)
    places = dict.fromkeys(names, AT_HOME)
    machines = [Machine(one, one.worker, places, clock) for one in bench.benches]
    done: list[Lease] = []
    while len(done) < len(urls):
        for machine in machines:
            done += await machine.fetch(20)
        await bench.advance(100)
        elapsed_ms += 100
        assert elapsed_ms < 1_000 + 1_200 * len(urls) / LIMIT.hits
    assert sorted(map(url_of, done)) == sorted(urls)
    check_windows([at for machine in machines for at in machine.log[AT_HOME]], LIMIT)
    assert [machine.moved for machine in machines] == [2 * each] * len(machines)


async def test_a_limit_below_the_number_of_partitions_is_refused(bench: DividedBench) -> None:
    """A share would be no request at all."""
    groups = by_address(bursts(6, 1, 1))
    table = ThrottleTable(default=WIDE_OPEN, groups=groups, czxid=1, mzxid=9)
    if len(bench.benches) == 1:
        assert await bench.frontiers.rules.copy(table)
    else:
        with pytest.raises(BadTable):
            await bench.frontiers.rules.copy(table)
