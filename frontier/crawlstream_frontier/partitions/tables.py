"""The tables of ZooKeeper in all partitions: each has and obeys its own copy."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.inspection import GateReport
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_frontier.codec.rules import check_shares
from crawlstream_frontier.egress.proxy_pools import ProxyPools
from crawlstream_frontier.partitions.answers import Queryable
from crawlstream_frontier.throttle_rules import ThrottleRules

COPY_S = 60.0
"""Time for a partition to check all of its domains by new rules."""


class DividedRules(ThrottleRules):
    """As ``ThrottleRules``, in every partition that answers."""

    def __init__(self, frontiers: Queryable) -> None:
        self._frontiers = frontiers

    async def table(self) -> ThrottleTable | None:
        """Return the oldest of the tables in force; None if a partition has none."""
        tables = (await self._frontiers.query(lambda frontier: frontier.rules.table())).values
        if None in tables:
            return None
        return min(filter(None, tables), key=lambda table: (table.czxid, table.mzxid))

    async def gates(self, names: Sequence[str]) -> Sequence[GateReport]:
        """Return the states of gates: one for each partition, with its share of the limits."""
        found = (await self._frontiers.query(lambda frontier: frontier.rules.gates(names))).values
        return [gate for gates in found for gate in gates]

    async def copy(self, table: ThrottleTable, *, adopt: bool = False, partitions: int = 0) -> bool:
        """Put a table in force everywhere; False: it is older than one in force.

        Each partition gets its share of the limits of groups; BadTable if one is too small.
        """
        number = partitions or self._frontiers.partitions.number
        check_shares(table, number)
        answers = await self._frontiers.query(
            lambda frontier: frontier.rules.copy(table, adopt=adopt, partitions=number),
            within_s=COPY_S,
        )
        return all(answers.values)

    async def agree(self, scope: str, *, by_force: bool = False) -> None:
        """Keep limits for each of these words; ConfigError if another value was set before."""
        await self._frontiers.query(lambda frontier: frontier.rules.agree(scope, by_force=by_force))


class DividedPools(ProxyPools):
    """As ``ProxyPools``, in every partition that answers."""

    def __init__(self, frontiers: Queryable) -> None:
        self._frontiers = frontiers

    async def table(self, known: PoolTable | None = None) -> PoolTable | None:
        """Return the oldest of the pools in force; None if a partition has none."""
        tables = (await self._frontiers.query(lambda frontier: frontier.pools.table(known))).values
        if None in tables:
            return None
        return min(filter(None, tables), key=lambda table: (table.czxid, table.mzxid))

    async def copy(self, table: PoolTable, *, adopt: bool = False) -> bool:
        """Put a table in force everywhere; False: it is older than one in force."""
        answers = await self._frontiers.query(
            lambda frontier: frontier.pools.copy(table, adopt=adopt), within_s=COPY_S
        )
        return all(answers.values)
