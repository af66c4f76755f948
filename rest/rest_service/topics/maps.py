"""Lists of sites that are made by this process, and those of the last hour, by id."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from rest_service.http.envelope import RequestRefused

MOST_MAPS, MOST_MAPS_EACH = 4, 2
"""Lists that are being made, in total and per client: each keeps up to 200 000 URLs."""
_KEPT, _KEPT_BYTES, _KEPT_S = 50, 64 << 20, 3600.0
"""Lists that are kept when they are made; beyond a limit, the oldest are dropped."""
_ID = re.compile(r"map-[0-9a-f]{32}")


@dataclass(slots=True)
class SiteMap:
    """A list that is made, or is there."""

    id: str
    client: str
    appids: frozenset[str]
    """Applications whose pages it may list; empty: all."""
    making: asyncio.Task[bytes]
    begun: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        """Bytes of the list; 0 while it is made, and if that has failed."""
        is_there = self.making.done() and not self.making.cancelled()
        return len(self.making.result()) if is_there and not self.making.exception() else 0

    async def wait(self, within_s: float) -> bytes | None:
        """Return the list as JSON; None: not in time. Raise what has kept it from being made."""
        await asyncio.wait([self.making], timeout=within_s)
        return self.making.result() if self.making.done() else None


class SiteMaps:
    """Keeps the lists of a process."""

    def __init__(self) -> None:
        self._maps: OrderedDict[str, SiteMap] = OrderedDict()

    def check_room(self, client: str) -> None:
        """Raise RequestRefused (429) if no further list can be made now."""
        making = [one for one in self._maps.values() if not one.making.done()]
        own = [one for one in making if one.client == client]
        if len(making) >= MOST_MAPS or len(own) >= MOST_MAPS_EACH:
            raise RequestRefused(
                429,
                f"Too many maps in progress: at most {MOST_MAPS}, of which {MOST_MAPS_EACH} per"
                " client.",
                code="too_many_maps",
                retry_after_s=5,
            )

    def begin(
        self, client: str, appids: frozenset[str], making: Coroutine[Any, Any, bytes]
    ) -> SiteMap:
        """Make a list under a new id."""
        id_ = f"map-{secrets.token_hex(16)}"
        task = asyncio.create_task(making, name=id_)
        # Retrieve the error, or asyncio logs that it was never retrieved.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._drop_old()
        one = self._maps[id_] = SiteMap(id_, client, appids, task)
        return one

    def get(self, id_: str) -> SiteMap | None:
        """Return a list of this process; None: there is none, or no more."""
        self._drop_old()
        return self._maps.get(id_) if _ID.fullmatch(id_) else None

    async def close(self) -> None:
        """End all that are being made."""
        tasks = [one.making for one in self._maps.values() if not one.making.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _drop_old(self) -> None:
        done = [one for one in self._maps.values() if one.making.done()]
        size = sum(one.size for one in done)
        count = len(done)
        for one in done:
            is_old = one.begun < time.monotonic() - _KEPT_S
            if not is_old and count <= _KEPT and size <= _KEPT_BYTES:
                break
            size, count = size - one.size, count - 1
            del self._maps[one.id]
