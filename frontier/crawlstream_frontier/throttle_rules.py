"""The throttle rules in force: the table in Redis, and the scope of its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from crawlstream.errors import ConfigError
from crawlstream.model.inspection import GateReport
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_frontier.codec.rules import gate_of, pack_table, unpack_table
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts, our_errors

DOMAINS_PER_LOOK = 200
"""Domains checked again in one script after a rule changed, or bands after a crawl was moved; keeps
it below 2 ms of CPU."""

SCOPES = {
    "": "for a domain",
    "type": "for each spider type",
    "group": "for each egress group",
    "type group": "for each spider type and egress group",
}
"""Scope of the limits, by the words of its text."""


class ThrottleRules:
    """The rules of one frontier, for all readers and for the process that copies them there.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def table(self) -> ThrottleTable | None:
        """Return the throttle table in force; None before the first."""
        with our_errors():
            blob = await self._scripts.redis.get(self._scripts.keys.table())
        return unpack_table(blob) if blob else None

    async def gates(self, names: Sequence[str]) -> Sequence[GateReport]:
        """Return the states of gates with these names, of each partition."""
        found = unpack(await self._scripts.run("gated", pack([list(names)])))
        return [gate_of(*one) for one in found]

    async def copy(self, table: ThrottleTable, *, adopt: bool = False, partitions: int = 1) -> bool:
        """Put a throttle table in force; False: it is older, or of another node.

        A group's limits apply to each of several ``partitions`` in equal parts. When it
        returns, all waiting domains have been checked by the new rules.
        """
        run = self._scripts.run
        copied = await run("rules", pack_table(table, adopt=adopt, partitions=partitions))
        while copied == 1 and await run("revise", DOMAINS_PER_LOOK):
            pass
        return bool(copied)

    async def agree(self, scope: str, *, by_force: bool = False) -> None:
        """Keep limits for each of these words: ``type``, ``group``, both or neither.

        The first process of a cluster decides; ConfigError if another value was set before.
        """
        forced = "1" if by_force else ""
        known = cast(bytes, await self._scripts.run("scope", scope, forced)).decode()
        if known != scope:
            raise ConfigError(
                "SCHEDULER_TYPE_ENABLED and SCHEDULER_IP_ENABLED require limits"
                f" {SCOPES[scope]}, but this cluster keeps limits {SCOPES.get(known, known)}; to"
                " change the cluster, stop all of its processes and run"
                " `crawlstream throttle rescope`"
            )
