"""The kinds of request that come with the program: handlers like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crawlstream.model.request import Request, RequestLimits
from crawlstream.plugins import Handler
from crawlstream.wire.requests import RequestKind


class BuiltInHandler(Handler):
    """A kind that comes with the program: ``class ActionHandler(Bundled, kind=ACTION)``."""

    def __init_subclass__(cls, *, kind: RequestKind) -> None:
        cls.name, cls.rank, cls.schema = kind.name, kind.rank, kind.schema
        cls._build = staticmethod(kind.build)

    _build: Callable[[Mapping[str, Any], RequestLimits], Request]

    async def admit(self, request: Any) -> None:
        """Raise InvalidRequest for a valid request that is not allowed now; Unavailable: wait.

        Old records, which are read again after a loss of Redis, are not checked.
        """
        del request

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> Any:
        """The request as a value of the model."""
        return self._build(fields, limits)
