"""Schedules: what is fed again and again, when, and what has become of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from crawlstream.model.crawl import CrawlKey

Overlap = Literal["skip", "stop", "join"]
"""What happens to a firing while the crawl of the last one is under way."""
OVERLAPS: frozenset[str] = frozenset(get_args(Overlap))

Do = Literal["set", "remove", "pause", "resume", "fire", "show"]
"""What a request does to a schedule; ``show`` changes nothing."""

OCCASION_DAYS = 7
"""An occasion is within so many days of the record that names it; and is remembered for longer."""
MOST_NUMBERS = 1_000_000
"""Numbers of one occasion: each of its records has one of its own below that."""
STOP_NUMBER = MOST_NUMBERS - 1
"""That of the stop which goes before the seeds of a firing."""
MOST_SEEDS = 100_000
"""Seeds of one firing; seeds that change while it is fed have the next so many numbers."""
AT = "{at}"
"""Stands in a crawlid for the time of the firing."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """One record of one firing: it takes effect once, however often it is fed."""

    schedule: str
    at: int
    """Epoch seconds."""
    n: int
    """Which of the records of the firing it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Seeds, and the times at which they are fed."""

    appid: str
    name: str
    """Unique in the application."""
    cron: str
    zone: str = "UTC"
    crawl: Mapping[str, object] = field(default_factory=dict)
    """Fields of a crawl request that all seeds have in common."""
    seeds: Sequence[Mapping[str, object]] = ()
    """Fields of each seed, ``url`` and others."""
    seeds_from: str | None = None
    """URL of the file that has them instead, as it is when the schedule fires."""
    overlap: Overlap = "skip"
    catch_up_s: int = 3_600
    """How late a firing may be that was missed."""
    jitter_s: int = 0
    """Longest time by which a firing is put off, each by another."""
    until: int | None = None
    """Epoch seconds after which it does not fire; None: never ends."""

    @property
    def key(self) -> tuple[str, str]:
        """Application and name."""
        return self.appid, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule, and how far it has come. Times are epoch seconds; 0: never."""

    schedule: Schedule
    version: int = 0
    """Grows with each change of it."""
    is_paused: bool = False
    since: int = 0
    """When it was set: it fires after that."""
    last: int = 0
    """The latest time of its own that was dealt with, whether it fired or not."""
    fire: int = 0
    """A firing that somebody asked for, which has not happened yet."""
    due: int = 0
    """When it is looked at next; 0: now, -1: never again."""
    begun: int = 0
    """The firing that is under way: its seeds may have been fed in part."""
    is_stopping: bool = False
    """Whether that firing stops the crawl of the last one."""
    last_crawl: CrawlKey | None = None
    """What the last firing has fed."""
    fired_at: int = 0
    """The time that the last firing was meant for."""
    fed: int = 0
    """When the last firing was fed."""
    is_awaited: bool = False
    """Whether seeds of the last firing are still on their way through Kafka."""
    last_number: int = 0
    """Number of its last seed, as long as it is awaited."""
    fired: int = 0
    """How often it has fired."""
    skipped: int = 0
    """How often it has not, for whatever reason."""
    skips: int = 0
    """How often it has not since it fired last; those of a pause do not count."""
    skipped_at: int = 0
    reason: str = ""
    """Why it did not fire the last time."""
    detail: str = ""
    """The same in a sentence, where the reason does not say it all."""
    repeated: int = 0
    """Records of its firings that came again and were dropped."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Times at which a schedule did not fire."""

    at: int
    """The latest of them."""
    reason: str
    """``running``, ``crawl_paused``, ``paused``, ``late``, ``missed`` or ``no_seeds``."""
    count: int = 1
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fired:
    """A firing whose seeds Kafka has."""

    at: int
    crawl: CrawlKey
    seeds: int
    late_s: int
    last_number: int
    """That of the last seed's occasion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What became of a schedule that was due."""

    state: ScheduleState
    """As it was read: where it has moved on since, this changes nothing."""
    last: int
    """The latest of its own times that is dealt with now."""
    due: int
    """When it is to be looked at next; -1: never again."""
    fired: Fired | None = None
    skips: Sequence[Skip] = ()
    is_asked: bool = False
    """Whether it fired because somebody asked."""


@dataclass(frozen=True, slots=True)
class ScheduleEvent:
    """What the world is told of a schedule."""

    event: str
    """``schedule_fired`` or ``schedule_skipped``."""
    appid: str
    schedule: str
    at: int
    server_time: int
    seeds: int = 0
    late_s: int = 0
    crawl: CrawlKey | None = None
    """What was fed; None where nothing was."""
    reason: str = ""
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMark:
    """A schedule as Kafka remembers it for a Redis that is lost."""

    appid: str
    name: str
    version: int = 0
    """Grows with each change."""
    schedule: Schedule | None = None
    """None: it was removed, or this says only how far it has come."""
    is_paused: bool = False
    since: int = 0
    last: int = 0
    last_crawl: CrawlKey | None = None
    removed_ms: int = 0
    """When it was removed; 0: it was not."""
