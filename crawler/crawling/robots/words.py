"""Lines of a robots.txt besides rules: rates, hours, preferences, irrelevant parameters.

``Request-rate`` and ``Visit-time`` belong to groups of agents, like rules, but do not end a group.
``Clean-param`` applies to all agents, wherever it stands. Lines that cannot be read are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from crawling.page.statements import LICENSE, Statement
from crawling.robots.preferences import Preference, about, preferences_in

ANY_AGENT = "*"
LONGEST_PAUSE_MS = 300_000
"""Maximum pause, also for a site that asks for more: with fewer pages a crawl would not end."""
_DAY_S = 86_400
_MOST_PREFERENCES = 1000
"""Maximum number of lines of one file about uses of pages."""
_LONGEST_CLEAN_PARAM = 500
"""Maximum characters of a line, as its specification says."""

_RATE = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})\s*([smhd]?)(?![^\s])", re.IGNORECASE)
_UNIT_MS = {"": 1000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HOURS = re.compile(r"(\d\d):?(\d\d)\s*-\s*(\d\d):?(\d\d)(?![^\s])")


@dataclass(frozen=True, slots=True)
class Hours:
    """A time of day at which a site may be visited, in seconds of UTC; it may pass midnight."""

    begin_s: int
    length_s: int


@dataclass(frozen=True, slots=True)
class CleanParam:
    """Parameters that change no page below some paths."""

    names: frozenset[str]
    pieces: Sequence[str]
    """Texts that a path contains one after the other, the first at its beginning."""

    def covers(self, path: str) -> bool:
        """Return whether it is about a path."""
        first, *others = self.pieces
        at = len(first)
        if not path.startswith(first):
            return False
        for piece in others:
            if (found := path.find(piece, at)) < 0:
                return False
            at = found + len(piece)
        return True


@dataclass(slots=True)
class GroupWords:
    """Words for one agent."""

    pause_ms: int = 0
    """Time between two requests: that of its slowest Request-rate, whatever its hours."""
    hours: list[Hours] = field(default_factory=list)
    """When it may come; empty: at any time."""
    preferences: list[Preference] = field(default_factory=list)
    """Statements about uses of pages."""


_NO_GROUP = GroupWords()


class Words:
    """Words of one file."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupWords] = {}
        self._clean: list[CleanParam] = []
        self._for_all: list[Preference] = []
        self._left = _MOST_PREFERENCES
        self.is_empty = True

    def know(self, agent: str) -> None:
        """Note that an agent has a group: what others are asked for is not for it."""
        self._groups.setdefault(agent.lower(), GroupWords())

    def add(self, agents: Iterable[str], name: str, value: str) -> None:
        """Add a line for the agents above it."""
        self.is_empty = False
        if name == "clean-param":
            self._clean += _clean_params(value)
            return
        pause_ms, hours = (_pause_ms(value), ()) if name == "request-rate" else (0, _hours(value))
        for agent in agents:
            group = self._groups[agent.lower()]
            group.pause_ms = max(group.pause_ms, pause_ms)
            group.hours += hours

    def prefer(self, agents: Sequence[str], name: str, value: bytes) -> None:
        """Add a preference for the agents above it, or for all."""
        for preference in preferences_in(name, value) if self._left else ():
            self.is_empty = False
            self._left -= 1
            if name == LICENSE or not agents:
                self._for_all.append(preference)
            else:
                for agent in agents:
                    self._groups[agent.lower()].preferences.append(preference)

    def statements(self, agent: str, url: str) -> Sequence[Statement]:
        """Return the statements about uses of a page that are for an agent."""
        own = self.of(agent).preferences
        return about(url, (*self._for_all, *own)) if own or self._for_all else ()

    def of(self, agent: str) -> GroupWords:
        """Return what an agent is asked for: in its own groups, or else in those for any."""
        return self._groups.get(agent.lower()) or self._groups.get(ANY_AGENT) or _NO_GROUP

    def cleaned(self, url: str, keeps: Callable[[str], bool] = lambda _name: False) -> str:
        """Return a URL without parameters that change nothing; the others keep their order.

        ``keeps``: parameters that stay in any case.
        """
        before, question, rest = url.partition("?")
        if not question or not self._clean:
            return url
        query, hash_, fragment = rest.partition("#")
        path = "/" + before.partition("://")[2].partition("/")[2]
        needless = [clean.names for clean in self._clean if clean.covers(path)]
        kept = [
            part
            for part in query.split("&")
            if keeps(name := part.partition("=")[0]) or not any(name in names for names in needless)
        ]
        if len(kept) == query.count("&") + 1:
            return url
        return before + question * bool(kept) + "&".join(kept) + hash_ + fragment


WORDS = ("request-rate", "visit-time", "clean-param")


def time_at(hours: Sequence[Hours], date_s: float) -> tuple[float, float]:
    """Return the seconds until a site may be visited (0: now), and for how long it may then.

    ``date_s`` is in epoch seconds.
    """
    ages = [((date_s - each.begin_s) % _DAY_S, each.length_s) for each in hours]
    stays_s = [all_s - age_s for age_s, all_s in ages if age_s < all_s]
    if any(all_s == _DAY_S for _, all_s in ages) or not ages:
        return 0.0, math.inf
    return (0.0, max(stays_s)) if stays_s else (min(_DAY_S - age_s for age_s, _ in ages), 0.0)


def _pause_ms(value: str) -> int:
    """Return the time between two requests that a rate allows; 0: it cannot be read."""
    match = _RATE.match(value)
    if not match or not int(match[1]):
        return 0
    pause_ms = math.ceil(int(match[2]) * _UNIT_MS[match[3].lower()] / int(match[1]))
    return min(pause_ms, LONGEST_PAUSE_MS)


def _hours(value: str) -> Sequence[Hours]:
    match = _HOURS.match(value)
    if not match:
        return ()
    begin_h, begin_m, end_h, end_m = map(int, match.groups())
    begin_s, end_s = (60 * begin_h + begin_m) * 60, (60 * end_h + end_m) * 60
    if max(begin_m, end_m) > 59 or max(begin_s, end_s) > _DAY_S or begin_s == end_s:
        return ()
    return (Hours(begin_s % _DAY_S, (end_s - begin_s) % _DAY_S or _DAY_S),)


def _clean_params(value: str) -> Sequence[CleanParam]:
    names, _, path = value.partition(" ")
    found = frozenset(filter(None, names.split("&")))
    return (CleanParam(found, path.split("*")),) if len(value) <= _LONGEST_CLEAN_PARAM else ()
