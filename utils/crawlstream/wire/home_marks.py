"""What `<prefix>.runs` remembers for homes of crawls: for ourselves, so strict on the way in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.partitions.messages import HomeMark
from crawlstream.wire import jsontext


def encode(home: int, mark: HomeMark) -> bytes:
    """A mark of the home in this partition as UTF-8 JSON."""
    record: dict[str, Any] = {
        "home": home,
        "kind": mark.kind,
        "redis_epoch": mark.redis_epoch,
        "generation": mark.generation,
        "run": mark.run,
        "positions": dict(mark.positions),
        "at_ms": mark.at_ms,
    }
    if mark.crawl is not None:
        record |= asdict(mark.crawl)
    return jsontext.dumps(record)


def of_home(home: int, values: Iterable[bytes]) -> list[HomeMark]:
    """The marks of one home, in their order; ValueError for anything that is no mark."""
    found = [decode(value) for value in values]
    return [mark for its, mark in found if its == home]


def decode(value: bytes) -> tuple[int, HomeMark]:
    """The partition of a home, and a mark of it; ValueError for anything else."""
    record: Any = jsontext.loads(value)
    try:
        crawl = None
        if "spiderid" in record:
            crawl = CrawlKey(record["spiderid"], record["appid"], record["crawlid"])
        return int(record["home"]), HomeMark(
            kind=record["kind"],
            redis_epoch=int(record["redis_epoch"]),
            crawl=crawl,
            generation=int(record["generation"]),
            run=int(record["run"]),
            positions={place: int(at) for place, at in record["positions"].items()},
            at_ms=int(record["at_ms"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not what a home is told: {value[:40]!r}") from error
