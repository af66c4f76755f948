"""A tunnel through the gateway: bytes both ways, as long as they may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from crawling.egress.blame import Blame
from crawling.failures import ProxyTrouble, TransferFailed
from crawling.gateway.dialer import READ, Link
from crawling.gateway.passes import GatewayPass, Target
from crawling.gateway.visitor import GatewayVisitor
from crawling.lease.expired import GrantExpired
from crawling.metrics import GATEWAY_TUNNELS


class TunnelTraffic:
    """Bytes to a target and back, counted and limited."""

    def __init__(
        self,
        visitor: GatewayVisitor,
        link: Link,
        owner: GatewayPass,
        target: Target,
        *,
        may_pass: Callable[[], bool],
    ) -> None:
        """``may_pass``: whether this process has the right to send anything."""
        self.link = link
        self.owner = owner
        self._visitor = visitor
        self._target = target
        self._may_pass = may_pass
        self.sent = self.received = 0
        self.moved_at = monotonic()

    def begin(self) -> None:
        """It is open now."""
        self.owner.opened(self)
        self.owner.stands(self._target)
        GATEWAY_TUNNELS.inc()

    def end(self) -> None:
        """It is over."""
        self.owner.closed(self)
        GATEWAY_TUNNELS.dec()
        self.link.abort()

    def abort(self) -> None:
        """End it at once, on both sides."""
        self.link.abort()
        self._visitor.abort()

    def write(self, data: bytes) -> None:
        """Send it to the target; GrantExpired if it must not be."""
        if not self._may_pass():
            self._stop("fence", GrantExpired("this worker may not send now"))
        if not self.sent:
            try:
                self.owner.before_send(*self._target)
            except Exception as error:  # noqa: BLE001  whatever the owner has against it
                self._stop("grant", error)
        self.link.writer.write(data)
        self.sent += len(data)
        self.owner.sent += len(data)
        self.moved_at = monotonic()

    def _stop(self, reason: str, error: Exception) -> None:
        self.owner.refuse(self._target, reason)
        self.owner.failed(self._target, error)
        self.abort()
        raise GrantExpired(str(error)) from error

    def came(self, size: int) -> bool:
        """So much came back; whether it may go on."""
        self.received += size
        self.owner.received += size
        self.moved_at = monotonic()
        if not self.owner.is_over:
            return True
        self.owner.refuse(self._target, "bytes")
        self.owner.abort()
        return False

    def lost(self) -> None:
        """It has ended on the other side, perhaps before anything came back."""
        if not self.owner.is_open or self.received or not self.sent:
            return
        words = "nothing came back"
        if self.owner.route:
            self.owner.failed(self._target, ProxyTrouble(Blame.PATH, words))
        else:
            self.owner.failed(self._target, TransferFailed("connection_lost", words))


class Relay(TunnelTraffic):
    """A tunnel."""

    async def run(self, early: bytes) -> None:
        """Pass on until one side ends; ``early`` has already come."""
        out = asyncio.create_task(self._out(early))
        try:
            await self._back()
        finally:
            out.cancel()
            with suppress(asyncio.CancelledError, GrantExpired, OSError):
                await out

    async def _out(self, early: bytes) -> None:
        data = early or await self._visitor.reader.read(READ)
        while data:
            self.write(data)
            await self.link.writer.drain()
            data = await self._visitor.reader.read(READ)
        self.link.abort()

    async def _back(self) -> None:
        data, writer = self.link.early, self._visitor.writer
        with suppress(OSError):
            data = data or await self.link.reader.read(READ)
            while data and self.came(len(data)):
                writer.write(data)
                await writer.drain()
                data = await self.link.reader.read(READ)
        if not self._visitor.reader.at_eof():
            self.lost()
        with suppress(OSError):
            writer.close()
