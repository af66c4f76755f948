"""What partitions of a frontier and homes of crawls tell; see docs/partitions.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


class StopToNote(NamedTuple):
    """A stop that Kafka has to remember before it takes effect."""

    offset: int
    crawl: CrawlKey
    generation: int
    """The one that it begins."""


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What the home has learned of a batch."""

    stamps: Mapping[int, Stamp]
    """By offset."""
    note: StopToNote | None = None
    """What stands in the way: nothing from its offset on has taken effect."""


class Question(NamedTuple):
    """A partition has work of a context, and no label for it that counts, or no credits."""

    context: ContextKey
    profiles: frozenset[str] = frozenset()
    """Hashes of profiles that it is missing."""
    is_of_credits: bool = False
    """Links wait for credits of a page limit; whether the label counts is another question."""


LabelState = Literal["open", "ended", "dead", "pending"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the home says of a context."""

    context: ContextKey
    version: Version
    state: LabelState
    """``dead``: its generation is over. ``pending``: ask again, Kafka has not all yet."""
    run: int = 0
    """The run that is open; 0: none."""
    paused_until: int | None = None
    """Epoch seconds; 0: until it is resumed; None: it is not paused."""
    shift: int = 0
    """By which its priorities are raised."""
    profiles: Mapping[bytes, bytes] = field(default_factory=dict)
    """Those that were asked for, by hash."""


class Tell(NamedTuple):
    """What a partition is to hear of a context."""

    context: ContextKey
    version: Version
    partition: int
    what: Literal["ended", "changed"]
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
    ledger: Mapping[str, int]
    """Counters of the run, among them those by reason: ``n:<reason>``, ``f:…``, ``z:…``."""
    is_short: bool = False
    """Links wait for credits of a page limit; it is not idle then."""


class Look(NamedTuple):
    """What one partition says, all of it at the same moment."""

    redis_epoch: int
    positions: Mapping[tuple[str, int], int]
    """Next offset to apply, by topic UUID and Kafka partition, of seeds and of links."""
    reports: Sequence[Report]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeMark:
    """What Kafka remembers for a home that goes back to an earlier moment."""

    kind: Literal["stop", "end", "life"]
    redis_epoch: int
    """Of the home, as it was written."""
    crawl: CrawlKey | None = None
    """None: of a life, which concerns all."""
    generation: int = 0
    """Of a stop, the one that it begins."""
    run: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    """Of a stop its own place, ``<topic UUID>:<partition>``, and the offset behind it; of an end,
    the offsets behind the seeds that it covers."""
    at_ms: int = 0
    """Time of the record that told of a stop."""


def survivors(marks: Iterable[tuple[int, HomeMark]]) -> list[HomeMark]:
    """The stops and ends that count: all but those of an earlier life of a home behind a later one.

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
