"""Names of scrapes and of their crawls: an id shows every process until when its page may come."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b

CLASSES = (2, 15, 60)
"""Minutes after which the crawl of a scrape expires: the shortest that reaches its deadline."""
KEPT_S = 3600.0
"""Seconds for which an answer can be fetched."""
_CRAWL = re.compile(r"scrape-\d{8}T\d{4}-[0-9a-f]{6}-(?:2|15|60)")
LASTING = frozenset({*range(200, 300), 404, 410})
"""Statuses that a page is likely to keep for a while; others are often temporary."""
MOST_OF_BATCH = 1000
"""Maximum number of scrapes of a batch."""
_STEM = r"(\d{10})-[0-9a-f]{6}-(2|15|60)-[0-9a-f]{16}"
_ID = re.compile(rf"{_STEM}(?:-([pr]))?")
_BATCH = re.compile(rf"(?P<stem>{_STEM})-(?P<kind>[prx])(?P<count>[1-9]\d{{0,3}})")
_MINUTE = "%y%m%d%H%M"


class ScrapeKind(StrEnum):
    """Clients that may get a page: its own alone, or those of equal scrapes, too."""

    PRIVATE = ""
    """Fetched with options of its client, perhaps with secrets: only for this client."""
    PLAIN = "p"
    RENDERED = "r"
    """By a browser, without options."""


@dataclass(frozen=True, slots=True)
class ScrapeName:
    """Id of a scrape, and the crawl that it belongs to."""

    id: str
    crawlid: str
    expires: int
    """Epoch seconds after which its page is not fetched any more."""


@dataclass(frozen=True, slots=True)
class BatchName:
    """Names the scrapes of a batch: any process finds their ids in that of the batch."""

    stem: str
    kind: ScrapeKind
    crawlid: str
    expires: int

    def item(self, number: int) -> ScrapeName:
        """Return the name of the scrape with a number, from 0."""
        return ScrapeName(_item_id(self.stem, self.kind, number), self.crawlid, self.expires)

    def id(self, count: int) -> str:
        """Return the id of the batch with this number of scrapes."""
        return f"{self.stem}-{self.kind or 'x'}{count}"


@dataclass(frozen=True, slots=True)
class ScrapeNames:
    """Names scrapes of one process: those of a minute and class are one crawl."""

    process: str = field(default_factory=lambda: secrets.token_hex(3))

    def new(self, deadline_s: float, kind: ScrapeKind = ScrapeKind.PRIVATE) -> ScrapeName:
        """Return a new name for a scrape that has this many seconds."""
        one = self.batch(deadline_s, kind)
        return ScrapeName(_with_kind(one.stem, kind), one.crawlid, one.expires)

    def batch(self, deadline_s: float, kind: ScrapeKind = ScrapeKind.PRIVATE) -> BatchName:
        """Return a new name for scrapes that have this many seconds."""
        now = datetime.now(UTC)
        minutes = next((one for one in CLASSES if one * 60 >= deadline_s), CLASSES[-1])
        of_minute = f"{self.process}-{minutes}"
        return BatchName(
            f"{now:{_MINUTE}}-{of_minute}-{secrets.token_hex(8)}",
            kind,
            f"scrape-{now:%Y%m%dT%H%M}-{of_minute}",
            _end(now, minutes),
        )


def is_scrapes(crawlid: str) -> bool:
    """Return whether a crawl has the pages of scrapes."""
    return _CRAWL.fullmatch(crawlid) is not None


def is_scrape_id(text: str) -> bool:
    """Return whether a text has the form of a scrape's id."""
    return _ID.fullmatch(text) is not None


def kind_of(id_: str) -> ScrapeKind:
    """Return the kind in the id of a scrape; private where it has none."""
    found = _ID.fullmatch(id_)
    return ScrapeKind(found[3] or "") if found else ScrapeKind.PRIVATE


def ids_of_batch(text: str) -> Sequence[str]:
    """Return the ids of the scrapes of a batch, by number; none if it is the id of no batch."""
    found = _BATCH.fullmatch(text)
    if not found or int(found["count"]) > MOST_OF_BATCH:
        return ()
    kind = ScrapeKind(found["kind"].replace("x", ""))
    return [_item_id(found["stem"], kind, number) for number in range(int(found["count"]))]


def comes_until(id_: str) -> float:
    """Return the time in epoch seconds until which the reply about a scrape may come."""
    found = _ID.fullmatch(id_)
    begun = _minute_of(found[1]) if found else None
    return _end(begun, int(found[2])) if found and begun else 0.0


def may_come(text: str) -> bool:
    """Return whether a scrape of this id may exist, and its answer may be there or come."""
    found = _ID.fullmatch(text)
    begun = _minute_of(found[1]) if found else None
    now = time.time()
    return begun is not None and begun.timestamp() <= now + 60 and now <= comes_until(text) + KEPT_S


def _minute_of(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _MINUTE).replace(tzinfo=UTC)
    except ValueError:
        return None


def _item_id(stem: str, kind: ScrapeKind, number: int) -> str:
    """Return the id of a scrape, which cannot be guessed without the stem."""
    digest = blake2b(f"{stem} {number}".encode(), digest_size=8).hexdigest()
    return _with_kind(f"{stem[:-16]}{digest}", kind)


def _with_kind(stem: str, kind: ScrapeKind) -> str:
    return f"{stem}-{kind}" if kind else stem


def _end(at: datetime, minutes: int) -> int:
    minute = at.replace(second=0, microsecond=0)
    return int((minute + timedelta(minutes=minutes + 1)).timestamp())
