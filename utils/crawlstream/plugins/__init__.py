"""Everything that the author of a kind of request or of an action imports.

A kind of request is a :class:`Handler`, run by kafka-monitor; an action is an :class:`Action`, run
by redis-monitor. ``docs/plugins.md`` shows one of each; :mod:`crawlstream_frontier.testing` runs
them without servers.
"""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest, InvalidUrl, Unavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Command, PendingAction, Seed
from crawlstream.model.state import CrawlState
from crawlstream.plugins.actions import Action, Context, Reply
from crawlstream.plugins.handlers import Handler
from crawlstream.wire.schemas import Schema

__all__ = [
    "Action",
    "Command",
    "Context",
    "CrawlKey",
    "CrawlState",
    "Handler",
    "InvalidRequest",
    "InvalidUrl",
    "PendingAction",
    "Record",
    "Reply",
    "Schema",
    "Seed",
    "Unavailable",
]
