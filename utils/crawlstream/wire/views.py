"""Values as programs see them: one shape each, whether a command or REST answers.

``crawl``
    The three ids, the ledger of the latest run, what follows from it (``pending``, ``residual``,
    ``held_back``), and ``domains`` where they were asked for.
``throttle_table``
    ``default``, ``domains`` by name, ``blacklist``; a rule has the fields of ZooKeeper's table.
``process``
    What a living process tells of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from crawlstream.model.process import Process
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle import ThrottleRule, ThrottleTable

View = Mapping[str, object]
"""An object of JSON, before it is bytes."""


def crawl(state: CrawlState) -> View:
    """A crawl, how far it is, and what waits in its domains."""
    fields = asdict(state)
    return {
        **fields.pop("crawl"),
        **fields,
        "pending": state.pending,
        "held_back": dict(state.held_back),
        "domains": [domain._asdict() for domain in state.domains],
        "residual": state.residual,
    }


def throttle_table(table: ThrottleTable) -> View:
    """All rules and the blacklist, by name."""
    return {
        "default": _rule(table.default),
        "domains": {name: _rule(rule) for name, rule in sorted(table.rules.items())},
        "blacklist": sorted(table.blacklist),
    }


def process(one: Process) -> View:
    """A process; ``values`` are the settings that its equals have, too."""
    return asdict(one)


def _rule(rule: ThrottleRule) -> View:
    return {
        "hits": rule.hits,
        "window": rule.window_s,
        "scale": rule.scale,
        "concurrency": rule.concurrency,
        "moderated": rule.moderated,
    }
