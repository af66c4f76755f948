"""Segments of a store of files, read from their claims and accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from crawlstream.store.store import Store, StoreUnavailable
from crawlstream.wire import jsontext
from pipeline_service.records.account import Account
from pipeline_service.sinks.files.claims import BrokenChain

_CLAIM = re.compile(r"_log/(?P<chain>[^/]+-\d+)/(?P<start>\d{20})\.json\Z")


@dataclass(frozen=True, slots=True)
class ArchiveSegment:
    """Segment that is claimed."""

    chain: str
    """Topic and partition."""
    start: int
    next: int
    files: Mapping[str, Mapping[str, Any]]
    """By their names: ``rows``, ``bytes``, ``sha256`` and ``index``; empty until finished."""
    claimed: Sequence[str]
    """Names of its files, as its claim has them."""
    account: Account | None
    """Account of its partition up to its end; None: it is not finished."""


def chains_of(store: Store) -> Iterator[Iterator[ArchiveSegment]]:
    """Yield the segments of each partition in their order. StoreUnavailable, BrokenChain."""
    found = filter(None, map(_CLAIM.match, store.list("_log")))
    names = sorted((each["chain"], int(each["start"])) for each in found)
    for chain, group in groupby(names, key=lambda each: each[0]):
        starts = [start for _, start in group]
        yield (_segment(store, chain, start) for start in starts)


def last_accounts(store: Store) -> Iterator[Account]:
    """Yield the account of each partition up to its last finished segment. As `chains_of`."""
    names = set(store.list("_log"))
    last: dict[str, int] = {}
    for found in filter(None, map(_CLAIM.match, names)):
        start = int(found["start"])
        if f"{found[0].removesuffix('.json')}.done.json" in names:
            last[found["chain"]] = max(start, last.get(found["chain"], 0))
    for chain, start in last.items():
        yield _segment(store, chain, start).account or Account()


def sizes_of(store: Store, ending: str) -> Sequence[int]:
    """Return the bytes of each file whose name ends so. StoreUnavailable."""
    try:
        found = store.filesystem.find(store.url(""), detail=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnavailable(f"cannot read {store.url('')}: {error}") from error
    return [int(about["size"]) for name, about in found.items() if name.endswith(ending)]


def _segment(store: Store, chain: str, start: int) -> ArchiveSegment:
    place = f"_log/{chain}/{start:020}"
    try:
        claim = _record(store.get(f"{place}.json"))
        done = store.get(f"{place}.done.json")
        told = None if done is None else _record(done)
        return ArchiveSegment(
            *(chain, start, int(claim["next"])),
            files={} if told is None else dict(told["files"]),
            claimed=list(map(str, claim["files"])),
            account=None if told is None else Account.of_record(told),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BrokenChain(f"{place}.json, or its account, is not what a pipeline writes") from error


def _record(raw: bytes | None) -> dict[str, Any]:
    record = jsontext.loads(raw or b"")
    if not isinstance(record, dict):
        raise TypeError
    return record
