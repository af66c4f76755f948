"""Merging of votes into the sketches of sites, against other workers that do the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crawlstream_frontier.waste.families import VerdictChange
from crawlstream_frontier.waste.packing import pack, serial_of, unpack
from crawlstream_frontier.waste.sketch import Merged, Sketch
from crawlstream_frontier.waste.texts import Kind
from crawlstream_frontier.waste.votes import Vote
from crawlstream_frontier.worker.sketch_store import SKETCHES_PER_CALL, SketchStore, SketchWrite

_TRIES = 3


@dataclass(slots=True)
class SiteVotes:
    """Votes of a site on their way into its sketch."""

    domain: str
    votes: Sequence[Vote]
    raw: bytes | None
    """Packed sketch to begin with; None: not known."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A sketch that has taken the votes of a site."""

    domain: str
    raw: bytes
    sketch: Sketch
    changes: Sequence[VerdictChange]
    kinds: Mapping[Kind, int]


@dataclass(slots=True)
class Counting:
    """Result of one merge."""

    counted: list[Counted] = field(default_factory=list)
    conflicts: int = 0


async def count(store: SketchStore, sites: Sequence[SiteVotes], *, asks: bool = False) -> Counting:
    """Add votes to the sketches of up to ``SKETCHES_PER_CALL`` sites of a partition.

    A sketch that another worker has replaced meanwhile takes the votes as well, in at most three
    tries; then they are dropped. ``asks``: whether sites are asked for made-up neighbours.
    RedisUnavailable, FrontierFull.
    """
    done = Counting()
    unknown = [site for site in sites if site.raw is None]
    if unknown:
        found = await store.read([site.domain for site in unknown])
        for site, raw in zip(unknown, found, strict=True):
            site.raw = raw
    left = list(sites)
    for _ in range(_TRIES):
        tried = [_merge(site, asks=asks) for site in left]
        writes = [
            SketchWrite(s.domain, s.raw, each.raw) for s, each in zip(left, tried, strict=True)
        ]
        answers = await store.replace(writes)
        done.counted += [each for each, raw in zip(tried, answers, strict=True) if raw is None]
        left = list(_conflicts(left, answers))
        done.conflicts += len(left)
        if not left:
            break
    return done


def _merge(site: SiteVotes, *, asks: bool) -> Counted:
    sketch = unpack(site.raw)
    merged: Merged = sketch.merge(site.votes, int(time.time()), asks=asks)
    raw = pack(sketch, serial_of(site.raw) + 1)
    return Counted(site.domain, raw, sketch, merged.changes, Counter(merged.kinds))


def _conflicts(sites: Iterable[SiteVotes], answers: Sequence[bytes | None]) -> Iterable[SiteVotes]:
    for site, raw in zip(sites, answers, strict=True):
        if raw is not None:
            site.raw = raw
            yield site


def in_calls(sites: Sequence[SiteVotes]) -> Iterable[Sequence[SiteVotes]]:
    """Divide sites into calls."""
    for start in range(0, len(sites), SKETCHES_PER_CALL):
        yield sites[start : start + SKETCHES_PER_CALL]
