"""The door for actions, ours and a user's alike.

An action is registered by name; the command that kafka-monitor put into the stream names it. A
user adds one, without touching ours, by the entry point group ``crawlstream.actions``: a class
that is an :class:`Action` and is made with a :class:`Context`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import PendingAction
from crawlstream.stats.tally import Tally
from crawlstream.throttle.edit import ThrottleEditor

GROUP = "crawlstream.actions"


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered, and to which application."""

    appid: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an action may work with."""

    frontier: Frontier
    redis: Redis
    keys: FrontierKeys
    editor: ThrottleEditor
    tally: Tally


class Action(Protocol):
    """Answers one kind of request.

    An action may be answered more than once (its monitor may die before it says so), so whatever
    it does must be safe to repeat. Errors that persist are answered on its behalf.
    """

    name: str
    """As in ``Command.name``."""

    async def answer(self, action: PendingAction) -> Reply:
        """Do what is asked, if anything, and say what came of it."""
        ...
