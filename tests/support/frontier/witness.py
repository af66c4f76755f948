"""A client of Redis that sees what each script leaves behind, in the packet that runs it."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from support.frontier.bench import KEYS


class Witness(Redis):
    """Redis client that records, with every reply of a script, clocks and pending records.

    Separate calls would double those of a random sequence, and see a later state.
    """

    now = 0
    """The frontier clock as the last script left it."""
    wall = 0
    """The machine's clock as the last script saw it."""
    owed = 0
    """Records in the outbox."""

    def __init__(self, port: int, database: int) -> None:
        # Without a time limit: a task and a timer less for every read and every write.
        super().__init__(host="127.0.0.1", port=port, db=database, socket_timeout=None)

    def neighbour(self) -> Redis:
        """A client of another database of this server."""
        pool: Any = self.connection_pool
        where = pool.connection_kwargs
        return Redis(host="127.0.0.1", port=where["port"], db=where["db"] + 8)

    async def evalsha(self, *args: Any) -> Any:
        """Run a script."""
        pipe: Any = self.pipeline(transaction=False)
        pipe.evalsha(*args).hmget(KEYS.meta(), "clock", "wall").xlen(KEYS.outbox())
        answer, clocks, owed = await pipe.execute(raise_on_error=False)
        if isinstance(answer, Exception):
            raise answer
        if all(clocks):  # A frontier that was founded and not used yet has no clock.
            self.now, self.wall, self.owed = *map(int, clocks), owed
        return answer

    async def advance(self, ms: int) -> None:
        """Let time pass on the frontier clock."""
        self.now = await self.hincrby(KEYS.meta(), "clock", ms)
