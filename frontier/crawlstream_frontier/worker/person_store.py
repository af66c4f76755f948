"""Store of the verdicts of persons (``crawlstream_frontier.waste.persons``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.waste.persons import PersonVerdict

OK = "ok"
_NO_VERSION = ""


class PersonVerdicts:
    """All of them, in the root partition. They do not expire. All methods: RedisUnavailable."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def put(self, wanted: PersonVerdict) -> str:
        """Set or replace a verdict; return ``OK``, or why not: ``too_many``."""
        return await self._change("set", *wanted[:-1])

    async def forget(self, site: str, family: str) -> str:
        """Take a verdict back; return ``OK``, or ``unknown``."""
        return await self._change("forget", site, family)

    async def all(self) -> Sequence[PersonVerdict]:
        """Return all verdicts, sorted by site and family."""
        _, found = await self.since(_NO_VERSION)
        return found

    async def since(self, version: str) -> tuple[str, Sequence[PersonVerdict]]:
        """Return the latest version, and all verdicts if it is another one than ``version``."""
        latest, fields = await self._call("read", version)
        told = dict(zip(fields[::2], fields[1::2], strict=True))
        told.pop(b"#", None)
        return latest.decode(), sorted(_verdict(name, value) for name, value in told.items())

    async def _change(self, verb: str, *args: object) -> str:
        (answer,) = await self._call(verb, *args)
        return str(answer.decode())

    async def _call(self, verb: str, *args: object) -> list[Any]:
        answer: list[Any] = unpack(await self._scripts.run("guarded", pack([verb, args])))
        return answer


def _verdict(name: bytes, value: bytes) -> PersonVerdict:
    site, _, family = name.decode().partition(" ")
    key, verdict, author, at = unpack(value)
    return PersonVerdict(site, family, key, verdict.decode(), author.decode(), at)
