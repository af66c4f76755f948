"""Tokens for the gateway: what each of them may, and what has gone through by it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from crawling.egress.route import Route

_MOST_TOLD = 100
"""Most targets of each kind reported to a token: a page may request any number."""

Target = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class PassRefusal:
    """Something that was asked for and is not to be had."""

    host: str
    port: int
    reason: str


class Abortable(Protocol):
    """Open connection."""

    def abort(self) -> None:
        """End it at once."""
        ...


class GatewayPass:
    """Lets its owner out by one route until it is closed; each has a token of its own."""

    def __init__(
        self,
        user: str,
        password: str,
        address: str,
        *,
        route: Route | None,
        most_bytes: int,
        most_tunnels: int,
        before_send: Callable[[str, int], None] | None,
        on_close: Callable[[GatewayPass], None],
    ) -> None:
        self.user = user
        self.password = password
        self.url = f"http://{user}:{password}@{address}"
        self.route = route
        self.most_tunnels = most_tunnels
        self.before_send = before_send or _do_nothing
        self.sent = self.received = 0
        """Bytes to and from sites, with those of TLS and without the proxy's own protocol."""
        self.refused: list[PassRefusal] = []
        self.is_open = True
        self._most_bytes = most_bytes
        self._on_close = on_close
        self._failures: OrderedDict[Target, Exception] = OrderedDict()
        self._ways: set[Abortable] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """The token is void from now on, and what is open by it ends at once."""
        if self.is_open:
            self.is_open = False
            self._on_close(self)
            self.abort()

    def abort(self) -> None:
        """End what is open; the token stays good."""
        for way in list(self._ways):
            way.abort()

    @property
    def tunnels(self) -> int:
        """Return how many are open now."""
        return len(self._ways)

    @property
    def is_over(self) -> bool:
        """Return whether more was received than may be."""
        return 0 < self._most_bytes < self.received

    def failure_of(self, host: str, port: int) -> Exception | None:
        """Return how the latest try to reach a target has failed; None: it has not."""
        return self._failures.get((host.strip("[]").lower(), port))

    # The gateway's.

    def refuse(self, target: Target, reason: str) -> None:
        """Note what is not to be had."""
        if len(self.refused) < _MOST_TOLD:
            self.refused.append(PassRefusal(*target, reason))

    def failed(self, target: Target, error: Exception) -> None:
        """A way to a target has not come about, or has ended before anything came back."""
        self._failures.pop(target, None)
        self._failures[target] = error
        if len(self._failures) > _MOST_TOLD:
            self._failures.popitem(last=False)

    def stands(self, target: Target) -> None:
        """A way to a target has come about."""
        self._failures.pop(target, None)

    def opened(self, way: Abortable) -> None:
        """Something is open by this token."""
        self._ways.add(way)

    def closed(self, way: Abortable) -> None:
        """It is not any more."""
        self._ways.discard(way)


def _do_nothing(host: str, port: int) -> None:
    """Do nothing: the default callback."""
