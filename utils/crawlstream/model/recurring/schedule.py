"""Schedules: seeds that are fed repeatedly, their times, and their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.scope import Scope

Overlap = Literal["skip", "stop", "join"]
"""Policy for a firing while the crawl of the last one is running."""

Do = Literal["set", "remove", "pause", "resume", "fire", "show"]
"""Operation of a request on a schedule; ``show`` changes nothing."""

OCCASION_DAYS = 7
"""Maximum days between an occasion and a record that names it; occasions are stored longer."""
MOST_NUMBERS = 1_000_000
"""Limit of the numbers in a firing: each of its records has a different number below it."""
STOP_NUMBER = MOST_NUMBERS - 1
"""Number of the stop that precedes the seeds of a firing."""
MOST_SEEDS = 100_000
"""Maximum seeds of a firing. Seeds that change while it is fed use the next MOST_SEEDS numbers."""
AT = "{at}"
"""Placeholder in a crawlid for the time of the firing."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """Record of a firing: it takes effect once, even if it is fed several times."""

    schedule: str
    at: int
    """Epoch seconds."""
    n: int
    """Number of the record in its firing."""


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
    """URL of a file with the seeds instead; it is read when the schedule fires."""
    scope: Scope = Scope.ANY
    """Links that are followed below each seed, besides those to ``allowed_domains``."""
    overlap: Overlap = "skip"
    catch_up_s: int = 3_600
    """Maximum seconds by which a missed firing may be late."""
    jitter_s: int = 0
    """Maximum seconds by which a firing is delayed; each firing has a different delay."""
    until: int | None = None
    """Epoch seconds after which it does not fire; None: never ends."""

    @property
    def key(self) -> tuple[str, str]:
        """Return application and name."""
        return self.appid, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """Schedule and its progress. Times are epoch seconds; 0: never."""

    schedule: Schedule
    version: int = 0
    """Number that increases with each change of the schedule."""
    is_paused: bool = False
    since: int = 0
    """Time at which it was set: it fires after that."""
    last: int = 0
    """Latest of its times that was processed, whether it fired or not."""
    fire: int = 0
    """Firing that a client requested and that has not happened yet."""
    due: int = 0
    """Time of its next check; 0: now, -1: never again."""
    begun: int = 0
    """Firing in progress: some of its seeds may have been fed."""
    is_stopping: bool = False
    """True if that firing stops the crawl of the last one."""
    last_crawl: CrawlKey | None = None
    """Crawl that the last firing fed."""
    fired_at: int = 0
    """Scheduled time of the last firing."""
    fed: int = 0
    """Time at which the last firing was fed."""
    is_awaited: bool = False
    """True if seeds of the last firing are still unread in Kafka."""
    last_number: int = 0
    """Number of its last seed, while it is awaited."""
    fired: int = 0
    """Number of firings."""
    skipped: int = 0
    """Number of skipped firings, for any reason."""
    skips: int = 0
    """Number of skipped firings since it fired last, without those during a pause."""
    skipped_at: int = 0
    reason: str = ""
    """Reason of the last skip."""
    detail: str = ""
    """Details of the reason, as a sentence; may be empty."""
    repeated: int = 0
    """Number of repeated records of its firings, which were dropped."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Times at which a schedule did not fire."""

    at: int
    """Latest of these times."""
    reason: str
    """``running``, ``crawl_paused``, ``paused``, ``late``, ``missed``, ``no_seeds``, ``pending`` or
    ``repeated``."""
    count: int = 1
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fired:
    """Firing whose seeds are in Kafka."""

    at: int
    crawl: CrawlKey
    seeds: int
    late_s: int
    last_number: int
    """Number of the last seed's occasion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Result of processing a schedule that was due."""

    state: ScheduleState
    """State as it was read: if it has changed since, this result is ignored."""
    last: int
    """Latest of its times that is now processed."""
    due: int
    """Time of its next check; -1: never again."""
    fired: Fired | None = None
    skips: Sequence[Skip] = ()
    is_asked: bool = False
    """True if it fired because a client requested it."""


@dataclass(frozen=True, slots=True)
class ScheduleEvent:
    """Event of a schedule to publish."""

    event: str
    """``schedule_fired`` or ``schedule_skipped``."""
    appid: str
    schedule: str
    at: int
    server_time: int
    seeds: int = 0
    late_s: int = 0
    crawl: CrawlKey | None = None
    """Crawl that was fed; None: nothing was fed."""
    reason: str = ""
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMark:
    """Schedule as Kafka stores it, to restore it after a loss of Redis."""

    appid: str
    name: str
    version: int = 0
    """Number that increases with each change."""
    schedule: Schedule | None = None
    """Schedule; None: it was removed, or the mark has only its progress."""
    is_paused: bool = False
    since: int = 0
    last: int = 0
    last_crawl: CrawlKey | None = None
    removed_ms: int = 0
    """Time of its removal; 0: it was not removed."""
