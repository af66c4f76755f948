"""A proxy on 127.0.0.1 for programs of this worker that open connections of their own.

Nothing leaves by it without a token, nothing but to where the guard lets pass, and nothing that
this worker has lost the right to send: when Redis has been silent for too long, or when the process
was frozen and others may have its pages by now.
"""

from __future__ import annotations

import asyncio
import secrets
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import h11
import structlog
from scrapy.exceptions import CannotResolveHostError

from crawling.egress.route import Route
from crawling.egress.routes import Routes
from crawling.failures import ProxyTrouble, TransferFailed
from crawling.gateway.dialer import READ, Dialer, Link, authorization
from crawling.gateway.forward import Forward
from crawling.gateway.passes import GatewayPass, PassRefusal, Target
from crawling.gateway.relay import Relay, TunnelTraffic
from crawling.gateway.visitor import GatewayRefused, GatewayVisitor, login_of, target_of
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.metrics import GATEWAY_REFUSED
from crawling.net.address_guard import GuardedResolver
from crawlstream.boot.addresses import Address, AddressRefused

__all__ = ["Gateway", "GatewayPass", "PassRefusal"]

MOST_VISITORS: Final = 512
"""Connections to the gateway at once; more are closed unheard."""
LONGEST_GAP_S: Final = 5.0
"""Time without running after which a process counts as frozen, and ends its transfers."""
IDLE_S: Final = 300.0
"""Time after which an idle tunnel is closed."""
_TICK_S = 1.0

log = structlog.get_logger()


class Gateway:
    """Lets out who has a token, by the route of that."""

    def __init__(
        self,
        leases: Leases,
        resolver: GuardedResolver,
        routes: Routes | None = None,
        *,
        bind: tuple[str, int] | None = None,
    ) -> None:
        """``bind``: the address that connections leave from, if it matters."""
        self._leases = leases
        self._routes = routes
        self._resolver = resolver
        self._dialer = Dialer(resolver, routes, bind=bind)
        self._secret = secrets.token_urlsafe(24)
        self._passes: dict[str, GatewayPass] = {}
        self._visitors: set[GatewayVisitor] = set()
        self._ways: set[TunnelTraffic] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticked_at = monotonic()
        self.port = 0

    async def start(self) -> None:
        """Listen, if that has not begun; answers once there is a port."""
        if self._server is None:
            server = await asyncio.start_server(self._visit, "127.0.0.1", 0, limit=READ)
            self._server = server
            self.port = self._dialer.own_port = server.sockets[0].getsockname()[1]
            self._tick()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def admit(
        self,
        route: Route | None,
        *,
        most_bytes: int = 0,
        most_tunnels: int = 64,
        before_send: Callable[[str, int], None] | None = None,
    ) -> GatewayPass:
        """Issue a token for one route (None: directly), valid until it is closed.

        ``most_bytes``: limit of all bytes received by it; 0: none. ``before_send`` is called with
        host and port before the first write to a connection; if it raises, the connection ends.
        """
        made = GatewayPass(
            secrets.token_urlsafe(12),
            self._secret,
            self.address,
            route=route,
            most_bytes=most_bytes,
            most_tunnels=most_tunnels,
            before_send=before_send,
            on_close=self._forget,
        )
        self._passes[made.user] = made
        return made

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return where a tunnel would lead; CannotResolveHostError or AddressRefused."""
        return await self._resolver.resolve(host, port)

    def _forget(self, owner: GatewayPass) -> None:
        self._passes.pop(owner.user, None)

    def close(self) -> None:
        """End all: listener, tokens, and what is open by them."""
        if self._timer:
            self._timer.cancel()
        if self._server:
            self._server.close()
        for each in list(self._passes.values()):
            each.close()
        for visitor in list(self._visitors):
            visitor.abort()

    def may_pass(self) -> bool:
        """Return whether anything may be sent; False after the process was frozen."""
        if monotonic() - self._ticked_at > LONGEST_GAP_S:
            self._end_all("frozen")
            return False
        return self._leases.is_in_contact

    def _tick(self) -> None:
        self.may_pass()
        now = self._ticked_at = monotonic()
        for way in list(self._ways):
            if now - way.moved_at > IDLE_S:
                way.abort()
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _end_all(self, why: str) -> None:
        if self._ways:
            log.warning("gateway", outcome="cut", reason=why, tunnels=len(self._ways))
        for way in list(self._ways):
            way.abort()

    # A visitor.

    async def _visit(self, reader: StreamReader, writer: StreamWriter) -> None:
        visitor = GatewayVisitor(reader, writer)
        if len(self._visitors) >= MOST_VISITORS:
            visitor.abort()
            return
        self._visitors.add(visitor)
        try:
            while (request := await visitor.request()) is not None:
                await self._serve(visitor, request)
                if visitor.is_done():
                    break
        except (OSError, IncompleteReadError, h11.ProtocolError, GrantExpired):
            visitor.abort()
        except Exception:
            log.exception("gateway", outcome="failed")
            visitor.abort()
        finally:
            self._visitors.discard(visitor)
            writer.close()

    async def _serve(self, visitor: GatewayVisitor, request: h11.Request) -> None:
        try:
            owner = self._owner_of(request)
            target, path = target_of(request)
        except GatewayRefused as error:
            await _say_no(visitor, error)
            return
        try:
            self._look(owner)
            if path:
                await self._forward(visitor, request, owner, target)
            else:
                await self._tunnel(visitor, owner, target)
        except GatewayRefused as error:
            owner.refuse(target, error.reason)
            await _say_no(visitor, error)
        except (ProxyTrouble, TransferFailed) as error:
            owner.failed(target, error)
            is_late = error.reason == "timeout"
            told = "connection_timeout" if is_late else "destination_unavailable"
            await visitor.refuse(504 if is_late else 502, told)

    def _owner_of(self, request: h11.Request) -> GatewayPass:
        user, password = login_of(request)
        owner = self._passes.get(user)
        if owner is None or not secrets.compare_digest(password.encode(), self._secret.encode()):
            raise GatewayRefused(407, "auth", "http_request_denied")
        return owner

    def _look(self, owner: GatewayPass) -> None:
        """Refused if nothing may leave by this token now."""
        if not self.may_pass():
            raise GatewayRefused(503, "fence")
        if owner.tunnels >= owner.most_tunnels:
            raise GatewayRefused(429, "tunnels", "connection_limit_reached")
        if owner.is_over:
            raise GatewayRefused(429, "bytes", "connection_limit_reached")

    async def _tunnel(self, visitor: GatewayVisitor, owner: GatewayPass, target: Target) -> None:
        link = await self._dial(owner, target)
        relay = Relay(visitor, link, owner, target, may_pass=self.may_pass)
        with _Open(relay, self._ways, self._routes):
            await relay.run(await visitor.accept())

    async def _forward(
        self, visitor: GatewayVisitor, request: h11.Request, owner: GatewayPass, target: Target
    ) -> None:
        route = owner.route
        is_whole = (
            route is not None and route.pool.plain == "absolute" and route.proxy.scheme != "socks5"
        )
        link = await self._dial(owner, target, is_whole=is_whole)
        way = Forward(visitor, link, owner, target, may_pass=self.may_pass)
        with _Open(way, self._ways, self._routes):
            asked = request.target.decode("ascii") if is_whole else target_of(request)[1]
            extra = authorization(route) if is_whole and route else []
            await way.run(visitor, request, asked=asked, extra=extra)

    async def _dial(self, owner: GatewayPass, target: Target, *, is_whole: bool = False) -> Link:
        try:
            link = await self._dialer.dial(owner.route, target, is_whole=is_whole)
        except AddressRefused as error:
            owner.failed(target, error)
            raise GatewayRefused(403, error.kind, "destination_ip_prohibited") from error
        except CannotResolveHostError as error:
            owner.failed(target, error)
            raise GatewayRefused(502, "dns", "dns_error") from error
        if not owner.is_open:
            link.abort()
            raise GrantExpired("its token was closed")
        return link


class _Open:
    """Keep a connection registered for the block; count its bytes at the end."""

    def __init__(self, way: TunnelTraffic, ways: set[TunnelTraffic], routes: Routes | None) -> None:
        self._way = way
        self._ways = ways
        self._routes = routes

    def __enter__(self) -> None:
        self._ways.add(self._way)
        self._way.begin()

    def __exit__(self, *_: object) -> None:
        way, route = self._way, self._way.owner.route
        self._ways.discard(way)
        way.end()
        if self._routes and route:
            self._routes.weighed(route, way.sent, way.received, connect_s=way.link.connect_s)


async def _say_no(visitor: GatewayVisitor, error: GatewayRefused) -> None:
    GATEWAY_REFUSED.labels(error.reason).inc()
    await visitor.refuse(error.status, error.error)
