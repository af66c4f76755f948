"""What partitions of a frontier and homes of crawls tell; see docs/partitions.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from crawlstream.model.crawl import CrawlKey


class Version(NamedTuple):
    """Which state of the registry of a crawl: of two, the larger one is the later."""

    redis_epoch: int
    """Of the home."""
    number: int


class ContextKey(NamedTuple):
    """The name of a generation of a crawl: what shares one duplicate filter."""

    crawl: CrawlKey
    generation: int


class Stamp(NamedTuple):
    """What the home says of a seed."""

    generation: int | None
    """None: its run is over, or it was stopped; partitions only move their positions."""
    version: Version
    run: int
    is_again: bool = False
    """It enters once more, also below the position: it was written after a stop that came late."""


class SeedsOf(NamedTuple):
    """Of which homes the seeds are that a partition is to take."""

    homes: int = 1
    """How many there are."""
    by_offset: Mapping[int, int] = {}
    """The home of each seed; 0 for those that are not named."""
    absent: frozenset[int] = frozenset()
    """Homes whose seeds are left out, as they could not be asked: they are taken later."""
    told_elsewhere: Sequence[tuple[int, int]] = ()
    """Ranges of offsets whose refusals somebody else is about to tell."""


Ending = Literal["stopped", "expired", "forgotten"]
"""How a generation ends: by a client; by the home's clock, with its run or some time after it."""


class ToNote(NamedTuple):
    """What ends a generation, and Kafka has to remember before it takes effect."""

    crawl: CrawlKey
    generation: int
    """The one that begins."""
    how: Ending
    redis_epoch: int
    """Of the home, as it said so: in another one it has to say so again."""
    offset: int | None = None
    """Of the record that waits for it; None: no record does."""
    run: int = 0
    """The run that ends; 0: none is open."""
    covers: Mapping[str, int] = {}
    """By place, ``<topic UUID>:<partition>``, the offset up to which its seeds are over."""

    def mark(self, at_ms: int = 0) -> HomeMark:
        """How Kafka remembers it; ``at_ms`` is the time of the record of a stop."""
        return HomeMark(
            kind=self.how,
            redis_epoch=self.redis_epoch,
            crawl=self.crawl,
            generation=self.generation,
            run=self.run,
            positions=self.covers,
            at_ms=at_ms,
        )


class Overdue(NamedTuple):
    """What the clock of a home ends."""

    to_note: Sequence[ToNote]
    next_ms: int | None
    """How long until a run expires; None: none has a time."""


class Begun(NamedTuple):
    """A crawl that its home knew nothing of; Kafka has to remember it before its stamps are used.

    Its numbers follow what was there before, which a home without its data could not tell.
    """

    crawl: CrawlKey
    generation: int
    run: int
    redis_epoch: int
    """Of the home, as it said so."""

    def mark(self) -> HomeMark:
        """How Kafka remembers it."""
        return HomeMark(
            kind="begun",
            redis_epoch=self.redis_epoch,
            crawl=self.crawl,
            generation=self.generation,
            run=self.run,
        )


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What the home has learned of a batch."""

    stamps: Mapping[int, Stamp]
    """By offset."""
    note: ToNote | None = None
    """What stands in the way: nothing from its offset on has taken effect."""
    stopped: Sequence[int] = ()
    """Offsets of seeds that do not enter, as a stop elsewhere is younger."""
    repeated: Mapping[str, int] = field(default_factory=dict)
    """By the key of a schedule, records of its occasions that came again."""
    begun: Sequence[Begun] = ()
    """What Kafka is to remember before the stamps are used; the home is told that it does."""


class Question(NamedTuple):
    """A partition has work of a context, and no label for it that counts, or no credits."""

    context: ContextKey
    profiles: frozenset[str] = frozenset()
    """Hashes of profiles that it is missing."""
    is_of_credits: bool = False
    """Links wait for credits of a page limit; whether the label counts is another question."""


LabelState = Literal["open", "ended", "dead", "expired", "pending"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the home says of a context."""

    context: ContextKey
    version: Version
    state: LabelState
    """``dead``, ``expired``: its generation is over. ``pending``: ask again, Kafka lags behind."""
    run: int = 0
    """The run that is open; 0: none."""
    paused_until: int | None = None
    """Epoch seconds; 0: until it is resumed; None: it is not paused."""
    shift: int = 0
    """By which its priorities are raised."""
    expires: int = 0
    """Epoch seconds; 0: never. Nothing is leased from then on; the home says that it is over."""
    occasion: str = ""
    """The latest that its seeds name."""
    profiles: Mapping[bytes, bytes] = field(default_factory=dict)
    """Those that were asked for, by hash."""


class Tell(NamedTuple):
    """What a partition is to hear of a context."""

    context: ContextKey
    version: Version
    partition: int
    what: Literal["ended", "expired", "changed"]
    is_dead: bool
    """Its generation is over, not only its run."""
    name: str
    """By which the home forgets it."""


class Told(NamedTuple):
    """What a partition has answered to a tell."""

    tell: Tell
    purged: int = 0
    """Pages that were removed with their generation."""
    is_drained: bool = True
    """Nothing of it is in flight any more; otherwise the tell is to be repeated."""
    ledger: Mapping[str, int] = {}


class OpenRun(NamedTuple):
    """A run that may be over: the beginning of a look at all partitions."""

    context: ContextKey
    version: Version
    run: int
    seeds: Mapping[tuple[str, int], int]
    """Offset behind the last seed, by topic UUID and Kafka partition."""


class Report(NamedTuple):
    """What one partition says of a context."""

    is_idle: bool
    """Nothing of it is queued, delayed or in flight, or waits for credits."""
    is_leasable: bool
    """It may be leased from. If it may not, and is not idle, its home is to be asked."""
    need: Mapping[int, int]
    """By partition, the offset up to which it must read its links."""
    run: int
    """What its ledger is of; 0: no run has come there yet."""
    ledger: Mapping[str, int]
    """Counters of the run, among them those by reason: ``n:<reason>``, ``f:…``, ``z:…``."""
    is_short: bool = False
    """Links wait for credits of a page limit; it is not idle then."""
    kept_run: int = 0
    """The run of which the partition heard last that it is over; 0: of none."""
    kept: Mapping[str, int] = MappingProxyType({})
    """What that had come to, but for how many it had admitted."""


class Look(NamedTuple):
    """What one partition says, all of it at the same moment."""

    redis_epoch: int
    positions: Mapping[tuple[str, int], int]
    """Next offset to apply, by topic UUID and Kafka partition, of seeds and of links."""
    reports: Sequence[Report]
    late: Mapping[tuple[str, int, int], int] = {}
    """The same for seeds of homes that were away, by topic UUID, Kafka partition and home."""

    def reached(self, place: tuple[str, int], home: int) -> int:
        """Up to which offset the seeds of a home have been read."""
        return self.late.get((*place, home), self.positions.get(place, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeMark:
    """What Kafka remembers for a home that goes back to an earlier moment."""

    kind: Ending | Literal["begun", "end", "life"]
    redis_epoch: int
    """Of the home, as it was written."""
    crawl: CrawlKey | None = None
    """None: of a life, which concerns all."""
    generation: int = 0
    """Of an end, the one of its run; otherwise the one that begins."""
    run: int = 0
    """The one that ends, or has begun; 0: none was open."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """By place, ``<topic UUID>:<partition>``, the offset behind the seeds that it covers; that of a
    stop is its own."""
    at_ms: int = 0
    """Time of the record that told of a stop."""
    remember: int | None = None
    """Of an end: seconds for which the crawl remembers its pages; None: as long as all do."""


def survivors(marks: Iterable[tuple[int, HomeMark]]) -> list[HomeMark]:
    """What counts of them, without lives: all but those of an earlier life behind a later one.

    ``marks`` and their homes are in the order of the log.
    """
    latest, counting = dict[int, int](), []
    for home, mark in marks:
        if mark.kind == "life":
            latest[home] = max(latest.get(home, 0), mark.redis_epoch)
        elif mark.redis_epoch >= latest.get(home, 0):
            counting.append(mark)
    return counting


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOrigin:
    """What links of a page carry to other partitions; pages with equal ones may share a record."""

    context: ContextKey
    version: Version
    """With which the page was leased."""
    spiderid: str
    """Of the worker: the spider type that fetches links which name none."""
    profile: str
    """Its hash."""
    domain_max_pages: int | None
    max_pages: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of seeds."""

    applied: int
    """Those that took effect in this call (0 for a repetition)."""
    refused: Mapping[int, str]
    """Reason by offset, for those that were not admitted and whose sender may not know it."""
    unconfirmed: Sequence[Question]
    short: ContextKey | None = None
    """A seed waits for credits of it, and what follows it; what is before has taken effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of records of links; all 0 for a repetition."""

    applied: int
    ignored: int
    """Records of generations that are over."""
    admitted: int
    """Links that entered; the others were duplicates or refused by a cap, and counted so."""
    unconfirmed: Sequence[Question]


class RunAtHome(NamedTuple):
    """What the home says of the latest run of a crawl."""

    run: int
    state: str
    """As of ``CrawlState``."""
    paused_until: int | None
    """Epoch seconds; 0: until it is resumed; None: it is not paused."""
    expires: int
    """Epoch seconds; 0: never."""
    remember: int | None
    """Seconds for which what it has seen outlives it; None: no seed has said so."""
    generation: int
    """The present one; it may have had no run yet."""
