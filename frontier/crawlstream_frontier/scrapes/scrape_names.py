"""Names of scrapes and of their crawls: an id shows every process until when its page may come."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

CLASSES = (2, 15, 60)
"""Minutes after which the crawl of a scrape expires: the shortest that reaches its deadline."""
KEPT_S = 3600.0
"""Seconds for which an answer can be fetched."""
_CRAWL = re.compile(r"scrape-\d{8}T\d{4}-[0-9a-f]{6}-(?:2|15|60)")
_ID = re.compile(r"(\d{10})-[0-9a-f]{6}-(2|15|60)-[0-9a-f]{16}")
_MINUTE = "%y%m%d%H%M"


@dataclass(frozen=True, slots=True)
class ScrapeName:
    """Id of a scrape, and the crawl that it belongs to."""

    id: str
    crawlid: str
    expires: int
    """Epoch seconds after which its page is not fetched any more."""


@dataclass(frozen=True, slots=True)
class ScrapeNames:
    """Names scrapes of one process: those of a minute and class are one crawl."""

    process: str = field(default_factory=lambda: secrets.token_hex(3))

    def new(self, deadline_s: float) -> ScrapeName:
        """Return a new name for a scrape that has this many seconds."""
        now = datetime.now(UTC)
        minutes = next((one for one in CLASSES if one * 60 >= deadline_s), CLASSES[-1])
        of_minute = f"{self.process}-{minutes}"
        return ScrapeName(
            f"{now:{_MINUTE}}-{of_minute}-{secrets.token_hex(8)}",
            f"scrape-{now:%Y%m%dT%H%M}-{of_minute}",
            _end(now, minutes),
        )


def is_scrapes(crawlid: str) -> bool:
    """Return whether a crawl has the pages of scrapes."""
    return _CRAWL.fullmatch(crawlid) is not None


def is_scrape_id(text: str) -> bool:
    """Return whether a text has the form of a scrape's id."""
    return _ID.fullmatch(text) is not None


def may_come(text: str) -> bool:
    """Return whether a scrape of this id may exist, and its answer may be there or come."""
    found = _ID.fullmatch(text)
    if not found:
        return False
    try:
        begun = datetime.strptime(found[1], _MINUTE).replace(tzinfo=UTC)
    except ValueError:
        return False
    now = time.time()
    return begun.timestamp() <= now + 60 and now <= _end(begun, int(found[2])) + KEPT_S


def _end(at: datetime, minutes: int) -> int:
    minute = at.replace(second=0, microsecond=0)
    return int((minute + timedelta(minutes=minutes + 1)).timestamp())
