"""What a kind of request is, ours and a user's alike, and how the kind of a record is found.

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
    """One kind of request: what it looks like, and what becomes of it.

    ``rank`` orders the kinds: the first one whose schema a record fits gets it. Ours have 100
    (crawl), 200 (action), 250 (schedule), 300 (stats) and 400 (zookeeper).
    """

    name: str
    rank: int
    schema: Schema
    replays: bool = False
    """Whether such a request takes effect again after a loss of Redis, if its crawl is unfinished:
    right for seeds, wrong for what somebody was answered."""

    limits = RequestLimits()
    """What this cluster lets a request ask for; the monitor sets it."""

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> Any:
        """The request as ``handle`` gets it: the object with its defaults, unless overridden.

        InvalidRequest refuses it for what a schema cannot say.
        """
        del limits
        return self.schema.filled(fields)

    def recognise(self, raw: bytes) -> Any:
        """The request in a record, told without reading it; None: it has to be read.

        Only the kind that comes before all others is asked.
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
        """What the request does to the frontier; None: nothing, all was done in here.

        A record may be handled more than once: what is done in here must be safe to repeat.
        InvalidRequest and InvalidUrl refuse the record, Unavailable has it tried again until it
        passes, any other error three times.
        """


class Router:
    """Finds the kind that a record is of."""

    def __init__(self, handlers: Sequence[Handler], limits: RequestLimits) -> None:
        self._handlers = sorted(handlers, key=lambda handler: handler.rank)
        self._limits = limits
        for handler in handlers:
            handler.limits = limits

    def route(self, raw: bytes | None) -> tuple[Handler, Any]:
        """The handler for a record's value, and the request for the handler.

        InvalidRequest tells why it is none; the problems are told as of the built-in kind that it
        most likely was meant to be.
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
