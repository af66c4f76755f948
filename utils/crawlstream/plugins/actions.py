"""Interface of actions, built-in ones and a user's alike.

An action is registered by its name, which is in the command that kafka-monitor put into the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import PendingAction
from crawlstream.model.state import CrawlState
from crawlstream.plugins.installed import load
from crawlstream.stats.tally import Tally
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.wire import jsontext

GROUP = "crawlstream.actions"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and the application that gets it."""

    appid: str
    body: bytes
    """A JSON object."""

    @classmethod
    def json(cls, appid: str, value: Mapping[str, object]) -> Self:
        """A reply of what JSON can say of an object, or comes closest to it."""
        return cls(appid, jsontext.dumps(value))


class Crawls(Protocol):
    """The crawls that the frontier knows; RedisUnavailable while it does not answer."""

    async def crawl_state(self, crawl: CrawlKey, *, with_domains: bool = True) -> CrawlState | None:
        """Return the state of a crawl's newest run; None for a crawl that is not known."""
        ...

    async def crawls(
        self,
        *,
        spiderid: str | None = None,
        appid: str | None = None,
        with_domains: bool = False,
    ) -> Sequence[CrawlState]:
        """Return the states of all crawls, of one spider or of one application."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Services for an action; its methods raise Unavailable if a service is unavailable."""

    frontier: Crawls
    """The queues, and the state of each crawl."""
    redis: Redis
    """The frontier's Redis, for keys of the action's own."""
    keys: FrontierKeys
    """``keys.tag`` is the prefix of all keys of this cluster."""
    editor: ThrottleEditor
    """Reads and changes the throttle rules in ZooKeeper."""
    tally: Tally
    """The counters that ``stats`` shows."""


class Action(Protocol):
    """Answers one kind of command. A user's is a class that is made with a :class:`Context`.

    An action may be answered more than once (its monitor may die before it says so), so whatever
    it does must be safe to repeat. Errors that persist are answered on its behalf.
    """

    name: str
    """As in ``Command.name``."""

    async def answer(self, action: PendingAction) -> Reply:
        """Perform the action, if there is anything to do, and return its result."""
        ...


def installed(context: Context) -> list[Action]:
    """The actions that users added, made; ConfigError for one that cannot be."""

    def make(loaded: Any) -> Action:
        action: Action = loaded(context)
        if not callable(getattr(action, "answer", None)):
            raise TypeError("an action needs a method answer()")
        return action

    return load(GROUP, make)
