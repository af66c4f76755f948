"""Internal records: states of runs on ``<prefix>.runs``, and marks for coordinators of crawls.

Only crawlstream writes them, so decoding is strict.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from crawlstream.model.crawl import CrawlKey, FiringKey
from crawlstream.model.partitions.messages import CoordinatorMark, survivors
from crawlstream.model.run_marks import RunMark
from crawlstream.wire import jsontext

EPOCH_KEY, EPOCH = b"epoch", b"{}"
"""Record at the start of a cluster, which belongs to no run."""


def encode(mark: RunMark) -> bytes:
    """Return a mark as UTF-8 JSON."""
    record: dict[str, Any] = {
        "spiderid": mark.crawl.spiderid,
        "appid": mark.crawl.appid,
        "crawlid": mark.crawl.crawlid,
        "run": mark.run,
        "state": mark.state,
        "positions": dict(mark.positions),
        "at_ms": mark.at_ms,
    }
    return jsontext.dumps(record | _of_some(mark))


def _of_some(mark: RunMark) -> dict[str, Any]:
    """Return the fields that only some marks have."""
    more: dict[str, Any] = {} if mark.remember is None else {"remember": mark.remember}
    if mark.until:
        more["until"] = mark.until
    if mark.firing is not None:
        seen = {str(part): b64encode(bits).decode() for part, bits in mark.seen.items()}
        more |= {"firing": asdict(mark.firing), "seen": seen}
    return more


def decode(value: bytes) -> RunMark:
    """Return the mark in a record's value; raise ValueError for other bytes."""
    record: Any = jsontext.loads(value)
    try:
        return RunMark(
            crawl=CrawlKey(record["spiderid"], record["appid"], record["crawlid"]),
            run=int(record["run"]),
            state=record["state"],
            positions={place: int(at) for place, at in record["positions"].items()},
            at_ms=int(record["at_ms"]),
            remember=record.get("remember"),
            until=int(record.get("until", 0)),
            firing=FiringKey(**record["firing"]) if "firing" in record else None,
            seen={int(part): b64decode(bits) for part, bits in record.get("seen", {}).items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a run state: {value[:40]!r}") from error


def encode_coordinator_mark(coordinator: int, mark: CoordinatorMark) -> bytes:
    """Return a mark of the coordinator in partition ``coordinator`` as UTF-8 JSON."""
    record: dict[str, Any] = {
        "home": coordinator,
        "kind": mark.kind,
        "redis_epoch": mark.redis_epoch,
        "generation": mark.generation,
        "run": mark.run,
        "positions": dict(mark.positions),
        "at_ms": mark.at_ms,
    }
    if mark.crawl is not None:
        record |= asdict(mark.crawl)
    if mark.remember is not None:
        record["remember"] = mark.remember
    return jsontext.dumps(record)


def surviving(values: Iterable[bytes]) -> list[CoordinatorMark]:
    """Return the valid marks of all coordinators, in their order; raise ValueError for others."""
    return survivors(map(decode_coordinator_mark, values))


def decode_coordinator_mark(value: bytes) -> tuple[int, CoordinatorMark]:
    """Return the partition of a coordinator, and its mark; raise ValueError for other bytes."""
    record: Any = jsontext.loads(value)
    try:
        crawl = None
        if "spiderid" in record:
            crawl = CrawlKey(record["spiderid"], record["appid"], record["crawlid"])
        return int(record["home"]), CoordinatorMark(
            kind=record["kind"],
            redis_epoch=int(record["redis_epoch"]),
            crawl=crawl,
            generation=int(record["generation"]),
            run=int(record["run"]),
            positions={place: int(at) for place, at in record["positions"].items()},
            at_ms=int(record["at_ms"]),
            remember=record.get("remember"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a mark for a coordinator: {value[:40]!r}") from error
