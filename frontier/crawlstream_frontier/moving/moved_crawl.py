"""Crawls in a form without partitions, and their forms with one and with several partitions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.model.statuses import PAGE_ENDS
from crawlstream_frontier.codec.state import SUMMED
from crawlstream_frontier.codec.values import mapping, pack
from crawlstream_frontier.moving.unloading import CrawlPart, Fields

_ENDED = tuple(map(str.encode, PAGE_ENDS))
"""Counters of the pages of a run that have ended."""
_BY_REASON = frozenset(f"{letter}:".encode() for letter in SUMMED)
_CARRIED = (
    *(b"expires", b"expires_by", b"budget", b"remember", b"remember_by"),
    *(b"budgets", b"budgets_by"),
    *(b"occasion", b"steered", b"recovered"),
)
"""Further fields of a run that move from one partition to one partition."""
_KEPT_BY_COORDINATOR = (
    *("expires", "remember", "budgets"),
    *("budget", "occasion", "ending", "is_bare", "started"),
)
"""Further fields of a crawl in its coordinator; the first three with the place of their seed."""
_SLAB_IS_FULL = b"32"
_HAS_BUDGETS = 2
"""Mark of a ledger, as of ``includes/budgets.lua``."""
_PROFILE_OF = b"#"

Positions = dict[bytes, int]
"""Offsets by ``<topic UUID>:<Kafka partition>``."""


@dataclass(slots=True)
class MovedCrawl:
    """A crawl, its latest run, and the places of its pages."""

    name: bytes
    run: int
    is_open: bool
    generation: int = 0
    number: int = 1
    """Number of the version of its registry."""
    over: Positions = field(default_factory=dict)
    seeds: Positions = field(default_factory=dict)
    paused_until: int | None = None
    """Epoch seconds; 0: until a resume request; None: it is not paused."""
    shift: int = 0
    top: int | None = None
    at_coordinator: Mapping[str, Any] = field(default_factory=dict)
    """See ``_KEPT_BY_COORDINATOR``."""
    contexts: list[CrawlPart] = field(default_factory=list)
    profiles: Fields = field(default_factory=dict)
    """By hash."""
    c: bytes = b""
    """Its number in the new frontier, the same in all partitions."""

    @property
    def waiting(self) -> int:
        """Number of its pages that wait."""
        return sum(each.counter(b"queued") + each.counter(b"delayed") for each in self.contexts)

    @property
    def numbers(self) -> Mapping[bytes, bytes]:
        """Number of each profile in the new frontier, by its hash."""
        return {hash_: b"%d" % n for n, hash_ in enumerate(sorted(self.profiles), 1)}

    def numbering(self, context: CrawlPart) -> Mapping[bytes, bytes]:
        """Return the new number of each profile, by its number in the entries of a context."""
        new = self.numbers
        return {
            number: new[field[1:]]
            for field, number in context.profiles.items()
            if field.startswith(_PROFILE_OF) and field[1:] in new
        }

    def profile_fields(self) -> list[bytes]:
        """Return the profiles in the form of a context."""
        flat = [_PROFILE_OF, b"%d" % len(self.profiles)]
        for hash_, number in self.numbers.items():
            flat += [number, self.profiles[hash_], _PROFILE_OF + hash_, number]
        return flat

    def registry(self) -> bytes:
        """Return the packed registry for the coordinator of the crawl."""
        packed: dict[str, Any] = {
            "g": self.generation,
            "run": self.run,
            "is_open": self.is_open,
            "number": self.number,
            "is_published": True,
            "over": self.over,
            "seeds": self.seeds,
        }
        packed |= self.at_coordinator
        if self.paused_until is not None:
            packed |= {"paused": True, "until_s": self.paused_until}
        if self.shift:
            packed["shift"] = self.shift
        if self.top is not None:
            packed["top"] = self.top
        return pack(packed)

    def undivided(self, slabs: int) -> list[bytes]:
        """Return its ledger for a frontier of one partition; ``slabs`` slabs are in use already."""
        own = {b"run": b"%d" % self.run, b"state": b"running" if self.is_open else b"finished"}
        for context in self.contexts:
            own |= {name: context.ledger[name] for name in _CARRIED if name in context.ledger}
        own |= self._said()
        if own.get(b"budgets", b"0 0") != b"0 0" and self.is_open:
            own[b"recovered"] = b"%d" % (int(own.get(b"recovered", 0)) | _HAS_BUDGETS)
        if self.top is not None:
            own[b"top"] = b"%d" % self.top
        if self.paused_until is not None:
            own[b"paused"] = b"1"
            if self.paused_until:
                own[b"paused_until"] = b"%d" % self.paused_until
        own |= {b"from:" + place: b"0 0" for place in self.seeds}
        return _flat(own | self._shared(slabs) | self._past())

    def _said(self) -> Fields:
        """Return what seeds say of the crawl and its run, for a ledger of one partition."""
        own = dict[bytes, bytes]()
        for name in ("expires", "remember", "budgets") if self.is_open else ("remember",):
            if name in self.at_coordinator:
                value, (at, place, offset) = self.at_coordinator[name]
                is_one = isinstance(value, int)
                own[name.encode()] = b"%d" % value if is_one else b"%d %.6g" % (*value[1:],)
                own[name.encode() + b"_by"] = b"%d %d %d" % (at, place, offset)
        if self.is_open and "budget" in self.at_coordinator:
            own[b"budget"] = self.at_coordinator["budget"]
        return own

    def context(self, slabs: int, clock: int, *, is_coordinator: bool) -> list[bytes]:
        """Return its ledger for one of several partitions; the coordinator counts ended pages."""
        own = {
            b"run": b"%d" % (self.run if self.is_open else 0),
            b"state": b"running",
            b"label": b"%d 0 0 0 0 0 %d 0 0" % (self.generation, clock),
        }
        past = self._past() if is_coordinator and self.is_open else {}
        return _flat(own | self._shared(slabs) | past)

    def _shared(self, slabs: int) -> Fields:
        now = b"%d" % int(time.time() * 1000)
        started = (each.ledger.get(b"started", now) for each in self.contexts)
        fields = {b"name": self.name, b"started": min(started, default=now), b"active": now}
        if slabs:
            fields |= {b"slab": b"%d" % slabs, b"seats": _SLAB_IS_FULL}
        return fields

    def _past(self) -> Fields:
        """Return the counters of the pages of the run that have ended."""
        sums = Counter[bytes]()
        for context in self.contexts:
            for name, value in context.ledger.items():
                if name in (*_ENDED, b"bytes") or name[:2] in _BY_REASON:
                    sums[name] += int(value)
        sums[b"admitted"] = sum(sums[name] for name in _ENDED)
        return {name: b"%d" % amount for name, amount in sums.items() if amount}


def of_one(contexts: Iterable[CrawlPart], positions: Positions) -> Iterator[MovedCrawl]:
    """Yield the crawls of a frontier with one partition; it has read Kafka up to ``positions``."""
    for context in contexts:
        ledger = context.ledger
        is_open = context.is_live and ledger.get(b"state") == b"running"
        begun = {
            name[5:]: int(value.split()[1])
            for name, value in ledger.items()
            if name.startswith(b"from:") and len(value.split()) > 1
        }
        yield MovedCrawl(
            name=context.name,
            run=context.number,
            is_open=is_open,
            over=begun if is_open else dict(positions),
            seeds=dict(positions),
            paused_until=_paused_until(ledger) if is_open else None,
            shift=context.shift,
            top=int(ledger[b"top"]) if is_open and b"top" in ledger else None,
            at_coordinator=_of_ledger(ledger, is_open=is_open),
            contexts=[context] if context.is_live else [],
            profiles=_by_hash(context),
        )


def of_several(
    registry: Mapping[bytes, tuple[Mapping[bytes, Any], Fields]],
    contexts: Mapping[bytes, Sequence[CrawlPart]],
) -> Iterator[MovedCrawl]:
    """Yield the crawls of a frontier with several partitions; ended generations have no pages."""
    for name, (known, profiles) in registry.items():
        live = [
            each for each in contexts.get(name, ()) if each.is_live and each.number == known[b"g"]
        ]
        union = dict(profiles)
        for context in live:
            union |= _by_hash(context)
        yield MovedCrawl(
            name=name,
            run=int(known[b"run"]),
            is_open=bool(known[b"is_open"]),
            generation=int(known[b"g"]),
            number=int(known[b"number"]),
            over={place: int(at) for place, at in mapping(known[b"over"]).items()},
            seeds={place: int(at) for place, at in mapping(known[b"seeds"]).items()},
            paused_until=int(known.get(b"until_s", 0)) if known.get(b"paused") else None,
            shift=int(known.get(b"shift", 0)),
            top=int(known[b"top"]) if b"top" in known else None,
            at_coordinator={
                name: known[name.encode()]
                for name in _KEPT_BY_COORDINATOR
                if name.encode() in known
            },
            contexts=live,
            profiles=union,
        )


def _of_ledger(ledger: Fields, *, is_open: bool) -> dict[str, Any]:
    """Return the fields for the coordinator of a crawl, from its ledger in the only partition."""
    found: dict[str, Any] = {
        name: [int(ledger[name.encode()]), [*map(int, ledger[name.encode() + b"_by"].split())]]
        for name in ("expires", "remember")
        if name.encode() + b"_by" in ledger and (is_open or name == "remember")
    }
    if b"occasion" in ledger:
        found["occasion"] = ledger[b"occasion"]
    if is_open and b"budgets_by" in ledger:
        most, share = ledger[b"budgets"].split()
        place = [*map(int, ledger[b"budgets_by"].split())]
        found["budgets"] = [[0, int(most), float(share)], place]
    if is_open and b"budget" in ledger:
        found["budget"] = ledger[b"budget"]
    if is_open and b"started" in ledger:
        found["started"] = int(ledger[b"started"])
    if not is_open:
        found["ending"] = ledger.get(b"state", b"finished")
    return found


def _paused_until(ledger: Fields) -> int | None:
    return int(ledger.get(b"paused_until", 0)) if b"paused" in ledger else None


def _by_hash(context: CrawlPart) -> Fields:
    known = context.profiles
    return {
        field[1:]: known[number]
        for field, number in known.items()
        if field.startswith(_PROFILE_OF) and len(field) > 1 and number in known
    }


def _flat(fields: Fields) -> list[bytes]:
    return [part for pair in fields.items() for part in pair]
