"""The states of runs on ``<prefix>.runs``: for ourselves, so strict on the way in."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import asdict
from typing import Any

from crawlstream.model.crawl import CrawlKey, FiringKey
from crawlstream.model.runs import RunMark
from crawlstream.wire import jsontext

EPOCH_KEY, EPOCH = b"epoch", b"{}"
"""The record that says that a cluster of ours has begun; it has no run."""


def encode(mark: RunMark) -> bytes:
    """A mark as UTF-8 JSON."""
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
    """What few marks have."""
    more: dict[str, Any] = {} if mark.remember is None else {"remember": mark.remember}
    if mark.until:
        more["until"] = mark.until
    if mark.firing is not None:
        seen = {str(part): b64encode(bits).decode() for part, bits in mark.seen.items()}
        more |= {"firing": asdict(mark.firing), "seen": seen}
    return more


def decode(value: bytes) -> RunMark:
    """The mark in a record's value; ValueError for anything else."""
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
