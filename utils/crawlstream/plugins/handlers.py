"""Interface of kinds of requests, built-in ones and a user's alike; finding the kind of a record.

A user's kind is a class that is a :class:`Handler` and is made without arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest
from crawlstream.model.effects import Command, Effect, Seed
from crawlstream.model.request import RequestLimits
from crawlstream.plugins.installed import load
from crawlstream.plugins.seeds import seed_fed
from crawlstream.wire import jsontext, requests
from crawlstream.wire.schemas import Schema
from crawlstream.wire.strict import parse_object

GROUP = "crawlstream.requests"


class Handler(ABC):
    """A kind of request: its schema, and how it is handled.

    ``rank`` orders the kinds: a record is of the first kind whose schema it fits. Built-in kinds
    have 100 (crawl), 200 (action), 250 (schedule), 300 (stats) and 400 (zookeeper).
    """

    name: str
    rank: int
    schema: Schema
    replays: bool = False
    """True if such a request takes effect again after a loss of Redis, if its crawl is unfinished:
    right for seeds, wrong for requests that were already answered."""

    limits = RequestLimits()
    """Limits of this cluster for requests; the monitor sets them."""

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> Any:
        """The request as ``handle`` gets it: the object with its defaults, unless overridden.

        InvalidRequest refuses it for what a schema cannot say.
        """
        del limits
        return self.schema.filled(fields)

    def recognise(self, raw: bytes) -> Any:
        """Return the request in a record, recognized without parsing it; None: it has to be parsed.

        Only the kind that comes before all others is called.
        """
        del raw
        return None

    def learn(self, raw: bytes, request: Any, limits: RequestLimits) -> None:
        """A record was read as this request: ``recognise`` may know the next one like it."""
        del raw, request, limits

    def command(self, request: Mapping[str, Any], record: Record) -> Command:
        """A command with this kind's name and the request as JSON, for the action of that name."""
        return Command(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            name=self.name,
            request=jsontext.dumps(request),
        )

    def seed(self, fields: Mapping[str, Any], record: Record) -> Seed:
        """The seed of a crawl request (``url``, ``appid``, ``crawlid`` …), checked like a fed one.

        InvalidRequest and InvalidUrl refuse the record.
        """
        return seed_fed(fields, record, self.limits)

    @abstractmethod
    async def handle(self, request: Any, record: Record) -> Effect | None:
        """Return the effect of the request on the frontier; None: none, or it was done in here.

        A record may be handled more than once: effects in here must be safe to repeat.
        InvalidRequest and InvalidUrl refuse the record. After Unavailable it is retried until it
        passes, after any other error three times.
        """


async def effect_of(handler: Handler, request: Any, record: Record) -> Effect | None:
    """Return the effect of a request, as its kind has it; TypeError if that is something else."""
    effect = await handler.handle(request, record)
    if effect is None or isinstance(effect, Effect):
        return effect
    raise TypeError(
        f"{type(handler).__name__}.handle returned {effect!r:.100}: a request has one effect, which"
        " is self.seed(…), self.command(…) or None; several URLs are several requests"
    )


class Router:
    """Finds the kind that a record is of."""

    def __init__(self, handlers: Sequence[Handler], limits: RequestLimits) -> None:
        self._handlers = sorted(handlers, key=lambda handler: handler.rank)
        self._limits = limits
        for handler in handlers:
            handler.limits = limits

    def route(self, raw: bytes | None) -> tuple[Handler, Any]:
        """Return the handler for a record's value, and the request for the handler.

        InvalidRequest says why the value is not a request; its problems are those of the built-in
        kind that most likely was meant.
        """
        first = self._handlers[0]
        if raw and (request := first.recognise(raw)) is not None:
            return first, request
        fields = parse_object(raw, self._limits)
        for handler in self._handlers:
            if handler.schema.fits(fields):
                request = handler.build(fields, self._limits)
                handler.learn(raw or b"", request, self._limits)
                return handler, request
        requests.decode(raw, limits=self._limits)
        raise InvalidRequest("bad_request", ["$: no installed plugin handles this type of request"])


def installed() -> list[Handler]:
    """The kinds that users added, made; ConfigError for one that cannot be."""

    def make(loaded: Any) -> Handler:
        handler = loaded()
        if not isinstance(handler, Handler):
            raise TypeError("it is not a crawlstream.plugins.Handler")
        if not isinstance(getattr(handler, "rank", None), int):
            raise TypeError("its rank must be an integer")
        if not isinstance(getattr(handler, "schema", None), Schema):
            raise TypeError("its schema must be a crawlstream.plugins.Schema")
        return handler

    return load(GROUP, make)
