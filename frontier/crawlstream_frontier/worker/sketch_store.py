"""Store of sketches (``crawlstream_frontier.waste``), in the partition of their domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from crawlstream_frontier.codec.values import unpack
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.waste.packing import SERIAL

SKETCHES_PER_CALL: Final = 64
KEPT_MS: Final = 14 * 86_400_000
"""Time after its last change when a sketch expires."""


class SketchWrite(NamedTuple):
    """Replacement of a sketch."""

    domain: str
    before: bytes | None
    """The packed sketch that was read; None: there was none."""
    after: bytes
    """The packed sketch to store, with another serial."""


class SketchStore:
    """Packed sketches of one partition. Each call takes at most ``SKETCHES_PER_CALL`` sites."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def read(self, domains: Sequence[str]) -> list[bytes | None]:
        """Return the sketches of some domains, None for those without one; RedisUnavailable."""
        with our_errors():
            keys = [self._scripts.keys.guard(domain) for domain in domains]
            return cast("list[bytes | None]", await self._scripts.redis.mget(keys))

    async def claim(self, domain: str, family: int, for_ms: int) -> bool:
        """Claim the request for a neighbour at a site; False: another process has claimed it."""
        return await self._claim(domain, family, b"", for_ms)

    async def hold_claim(self, domain: str, family: int, for_ms: int) -> None:
        """Prolong the claim of this process: no process requests a neighbour for some time."""
        await self._claim(domain, family, b"fetching", for_ms)

    async def _claim(self, domain: str, family: int, seen: bytes, for_ms: int) -> bool:
        name = f"neighbour {domain} {family:08x}"
        return await self._scripts.run("claim", name, seen, for_ms) == 1

    async def replace(self, writes: Sequence[SketchWrite]) -> list[bytes | None]:
        """Replace sketches that have not changed since they were read.

        Return for each None if it was replaced, else the sketch that is stored now. FrontierFull:
        Redis has no room for sketches. RedisUnavailable.
        """
        args = [
            part
            for write in writes
            for part in (write.domain, (write.before or b"")[SERIAL], write.after)
        ]
        answers = unpack(await self._scripts.run("guard", KEPT_MS, *args))
        return [answer or None for answer in answers]
