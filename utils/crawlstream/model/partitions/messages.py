"""Messages between the partitions of a frontier and the coordinators of crawls.

The coordinator of a crawl is the partition that has its registry; see docs/partitions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from crawlstream.model.crawl import Budgets, CrawlKey


class Version(NamedTuple):
    """Version of a crawl's registry: of two versions, the larger one is the later."""

    redis_epoch: int
    """Redis epoch of the coordinator."""
    number: int


class ContextKey(NamedTuple):
    """Name of a generation of a crawl: the part of it that shares one duplicate filter."""

    crawl: CrawlKey
    generation: int


class Stamp(NamedTuple):
    """Decision of the coordinator about a seed."""

    generation: int | None
    """None: its run is over or was stopped; partitions only advance their positions."""
    version: Version
    run: int
    is_again: bool = False
    """Admit it again, also below the position: it was written after a stop that arrived late."""


class SeedsOf(NamedTuple):
    """Coordinators of the seeds in a batch for one partition."""

    coordinators: int = 1
    """Number of coordinators."""
    by_offset: Mapping[int, int] = {}
    """Coordinator of each seed; 0 for seeds that are not listed."""
    absent: frozenset[int] = frozenset()
    """Coordinators that were unavailable: their seeds are left out now and applied later."""
    reported_elsewhere: Sequence[tuple[int, int]] = ()
    """Ranges of offsets whose refusals are about to be reported for partitions that catch up."""


Ending = Literal["stopped", "expired", "forgotten"]
"""How a generation ends: by a client, or by the coordinator's clock, with its run or later."""


class ToNote(NamedTuple):
    """End of a generation, which must be stored in Kafka before it takes effect."""

    crawl: CrawlKey
    generation: int
    """Number of the generation that begins."""
    how: Ending
    redis_epoch: int
    """Redis epoch of the coordinator when it decided; in another epoch it must decide again."""
    offset: int | None = None
    """Offset of the record that waits for it; None: no record waits."""
    run: int = 0
    """The run that ends; 0: none is open."""
    covers: Mapping[str, int] = {}
    """Offset up to which its seeds have ended, by place: ``<topic UUID>:<partition>``."""

    def mark(self, at_ms: int = 0) -> CoordinatorMark:
        """Return the mark to store in Kafka; ``at_ms`` is the time of a stop's record."""
        return CoordinatorMark(
            kind=self.how,
            redis_epoch=self.redis_epoch,
            crawl=self.crawl,
            generation=self.generation,
            run=self.run,
            positions=self.covers,
            at_ms=at_ms,
        )


class Overdue(NamedTuple):
    """Generations and runs that the coordinator's clock ends."""

    to_note: Sequence[ToNote]
    next_ms: int | None
    """Milliseconds until the next run expires; None: no run expires."""


class Begun(NamedTuple):
    """Crawl that is new to its coordinator; store it in Kafka before its stamps are used.

    Its numbers follow those of earlier runs, which a coordinator that lost its data cannot know.
    """

    crawl: CrawlKey
    generation: int
    run: int
    redis_epoch: int
    """Redis epoch of the coordinator when it answered."""

    def mark(self) -> CoordinatorMark:
        """Return the mark to store in Kafka."""
        return CoordinatorMark(
            kind="begun",
            redis_epoch=self.redis_epoch,
            crawl=self.crawl,
            generation=self.generation,
            run=self.run,
        )


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Answer of the coordinator to a batch of seeds."""

    stamps: Mapping[int, Stamp]
    """Stamps by offset."""
    note: ToNote | None = None
    """The end that must be stored first: nothing from its offset on has taken effect."""
    stopped: Sequence[int] = ()
    """Offsets of seeds that are not admitted because a stop elsewhere is more recent."""
    repeated: Mapping[str, int] = field(default_factory=dict)
    """Repeated records of occasions, by the key of their schedule."""
    begun: Sequence[Begun] = ()
    """Crawls to store in Kafka, and then confirm to the coordinator, before using the stamps."""


class Question(NamedTuple):
    """Request of a partition that has work of a context but no valid label or no credits."""

    context: ContextKey
    profiles: frozenset[str] = frozenset()
    """Hashes of the profiles that it lacks."""
    is_of_credits: bool = False
    """Links wait for credits of a page limit; this says nothing about the label."""


LabelState = Literal["open", "ended", "dead", "expired", "pending"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """State of a context according to the coordinator."""

    context: ContextKey
    version: Version
    state: LabelState
    """``dead``, ``expired``: its generation is over. ``pending``: Kafka lags, request it again."""
    run: int = 0
    """Number of the open run; 0: none."""
    paused_until: int | None = None
    """Epoch seconds; 0: until it is resumed; None: it is not paused."""
    shift: int = 0
    """Offset that is added to its priorities."""
    expires: int = 0
    """Epoch seconds; 0: never. No page is leased from then on; the coordinator ends the run."""
    occasion: str = ""
    """Latest occasion that its seeds name."""
    profiles: Mapping[bytes, bytes] = field(default_factory=dict)
    """Requested profiles by hash."""


class ContextChange(NamedTuple):
    """Change of a context that a partition must be notified of."""

    context: ContextKey
    version: Version
    partition: int
    what: Literal["ended", "expired", "changed"]
    is_dead: bool
    """Its generation has ended, not only its run."""
    name: str
    """Name by which the coordinator removes it after its delivery."""


class ChangeAnswer(NamedTuple):
    """Answer of a partition to a notification."""

    tell: ContextChange
    purged: int = 0
    """Pages that were removed with their generation."""
    is_drained: bool = True
    """No page of it is in flight any more; otherwise the notification must be repeated."""
    ledger: Mapping[str, int] = {}


class OpenRun(NamedTuple):
    """Run that may be over: the starting point of a look at all partitions."""

    context: ContextKey
    version: Version
    run: int
    seeds: Mapping[tuple[str, int], int]
    """Offset after the last seed, by topic UUID and Kafka partition."""
    budgets: Budgets = Budgets()
    """Only from ``spend``."""


class Spent(NamedTuple):
    """Run that has spent a budget in all partitions together."""

    context: ContextKey
    run: int
    budget: str


class ContextReport(NamedTuple):
    """State of a context in one partition."""

    is_idle: bool
    """No page of it is queued, delayed, in flight or waiting for credits."""
    is_leasable: bool
    """Its pages may be leased. If not, and it is not idle, query its coordinator."""
    need: Mapping[int, int]
    """Offset up to which each partition must read its links."""
    run: int
    """Run of its ledger; 0: no run has reached the partition yet."""
    ledger: Mapping[str, int]
    """Counters of the run, including those by reason: ``n:<reason>``, ``f:…``, ``z:…``."""
    is_short: bool = False
    """Links wait for credits of a page limit; it is not idle then."""
    kept_run: int = 0
    """Run whose end the partition was last notified of; 0: none."""
    kept: Mapping[str, int] = MappingProxyType({})
    """Final counters of that run, without the number of admitted pages."""


class Look(NamedTuple):
    """State of one partition at one moment."""

    redis_epoch: int
    positions: Mapping[tuple[str, int], int]
    """Next offset to apply of seeds and of links, by topic UUID and Kafka partition."""
    reports: Sequence[ContextReport]
    late: Mapping[tuple[str, int, int], int] = {}
    """Next offset of the seeds of coordinators that were unavailable, by topic UUID, Kafka
    partition and coordinator."""

    def reached(self, place: tuple[str, int], coordinator: int) -> int:
        """Return the offset up to which the seeds of a coordinator have been read."""
        return self.late.get((*place, coordinator), self.positions.get(place, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMark:
    """Mark in Kafka for a coordinator that may be restored to an earlier state."""

    kind: Ending | Literal["begun", "end", "life"]
    redis_epoch: int
    """Redis epoch of the coordinator when the mark was written."""
    crawl: CrawlKey | None = None
    """None for ``life``, which concerns all crawls."""
    generation: int = 0
    """Generation of the run for ``end``; otherwise the generation that begins."""
    run: int = 0
    """Run that ends or has begun; 0: no run was open."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Offset after the seeds that it covers, by place: ``<topic UUID>:<partition>``. For a stop it
    is the offset of the stop itself."""
    at_ms: int = 0
    """Time of the record of a stop."""
    remember: int | None = None
    """Seconds for which the crawl remembers its pages after ``end``; None: the default."""


def survivors(marks: Iterable[tuple[int, CoordinatorMark]]) -> list[CoordinatorMark]:
    """Return the marks that are valid, without those of kind ``life``.

    A mark of an earlier epoch that follows a ``life`` of a later one is not valid. ``marks`` are
    pairs of coordinator and mark, in the order of the log.
    """
    latest, counting = dict[int, int](), []
    for coordinator, mark in marks:
        if mark.kind == "life":
            latest[coordinator] = max(latest.get(coordinator, 0), mark.redis_epoch)
        elif mark.redis_epoch >= latest.get(coordinator, 0):
            counting.append(mark)
    return counting


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOrigin:
    """Data that links carry to other partitions; pages with equal data may share a record."""

    context: ContextKey
    version: Version
    """Version with which the page was leased."""
    spiderid: str
    """Spider type of the worker; it fetches links that name no other."""
    profile: str
    """Hash of the profile."""
    domain_max_pages: int | None
    max_pages: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Result of applying seeds."""

    applied: int
    """Number of seeds that took effect in this call (0 for a repetition)."""
    refused: Mapping[int, str]
    """Reason by offset, for seeds that were not admitted and may not have been reported yet."""
    unconfirmed: Sequence[Question]
    short: ContextKey | None = None
    """Context whose credits a seed waits for. Earlier records have taken effect; the seed and the
    records after it have not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Result of applying records of links; all 0 for a repetition."""

    applied: int
    ignored: int
    """Records of generations that have ended."""
    admitted: int
    """Links that were admitted; the others were counted as duplicates or over a page limit."""
    unconfirmed: Sequence[Question]


class RegisteredRun(NamedTuple):
    """Latest run of a crawl according to its coordinator."""

    run: int
    state: str
    """State as in ``CrawlState``."""
    paused_until: int | None
    """Epoch seconds; 0: until it is resumed; None: it is not paused."""
    expires: int
    """Epoch seconds; 0: never."""
    remember: int | None
    """Seconds for which its seen pages outlive it; None: no seed sets it."""
    generation: int
    """Current generation; it may have had no run yet."""
    budgets: Mapping[str, float] = MappingProxyType({})
    """As of ``CrawlState``."""
