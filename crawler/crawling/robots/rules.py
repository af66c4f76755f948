"""What a robots.txt says, and what it costs to go by it.

Most files are nothing. But each agent of a group has all the rules of the group for itself, so a
few kilobytes can stand for millions of rules; and a URL may have to be looked through once for
each rule with a wildcard. A file's :attr:`Rules.weight` tells that beforehand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import structlog
from protego import Protego

MOST_RULES = 1 << 16
"""Of one file; more than 500 KiB have room for in a group of one agent. Reading as many takes a
second, and keeping them 15 MB."""
LIGHT_CHARACTERS = 2048
"""A text is read at once up to this, in 10 ms at worst; a longer one beside the event loop."""
_LIGHT_RULES = 1024
_AGENT_WEIGHT = 16
"""Agents are looked through for each that is new, and for each user agent of ours."""
_WILDCARD_CHARACTERS = 4
"""Of a line with a wildcard, to a rule: so many take the time of one, at worst."""
_RULE_CHARACTERS = 2
"""A rule that is kept takes the room of so many characters of text."""
_LONGEST_DELAY_S = 300.0
"""A longer Crawl-delay is cut to this; so few pages would be no crawl."""

_OPENS = re.compile(r"user[- ]?agent\s*:")
_CLOSES = re.compile(r"(?:allow|disallow|crawl-delay|request-rate|visit-time)\s*:")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rules:
    """What one file says."""

    parsed: Protego
    weight: int
    """About how many rules it holds; one counts for each agent of its group."""
    size: int
    """What it takes of memory, in characters of an ordinary file."""

    @property
    def is_light(self) -> bool:
        """Whether a URL is judged within a few milliseconds at worst."""
        return self.weight <= _LIGHT_RULES

    def allow(self, url: str, agent: str) -> bool:
        """Whether an agent may fetch a URL."""
        return self.parsed.can_fetch(url, agent)

    def crawl_delay_ms(self, agent: str) -> int:
        """The pause between two requests that it asks an agent to keep; 0: it does not."""
        delay_s = self.parsed.crawl_delay(agent)
        return int(min(delay_s, _LONGEST_DELAY_S) * 1000) if delay_s and delay_s > 0 else 0


def rules_in(text: str) -> Rules | None:
    """What a file says, if it can be read; without rules everything is allowed.

    One that has more rules than can be borne forbids everything, as one does that is too long.
    """
    weight = weight_of(text)
    if weight > MOST_RULES:
        log.warning("robots", outcome="too_many_rules", weight=weight)
        text, weight = "User-agent: *\nDisallow: /", 1
    if not text:
        return None
    try:
        parsed = Protego.parse(text)
    except Exception as error:  # noqa: BLE001  whatever a hostile file does to the parser
        log.warning("robots", outcome="unreadable", error=str(error)[:200])
        return None
    return Rules(parsed, weight, max(len(text), _RULE_CHARACTERS * weight))


def weight_of(text: str) -> int:
    """About how many rules a text holds.

    Protego may double one, for an agent or a path that can be read in two ways. It is also
    generous about what begins and ends a group; here a group ends only where it surely does, and
    whatever may be an agent counts.
    """
    weight = agents = 0
    is_closed = False
    for line in map(str.strip, text.lower().splitlines()):
        if line.startswith("user"):
            if is_closed and _OPENS.match(line):
                agents, is_closed = 0, False
            agents += 1
            weight += _AGENT_WEIGHT
        elif line and not line.startswith("#"):
            is_closed = is_closed or _CLOSES.match(line) is not None
            weight += agents
            if "*" in line:
                weight += len(line) // _WILDCARD_CHARACTERS
    return weight
