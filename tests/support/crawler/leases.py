"""Leases for tests of what a process does with them, and a clock that can be moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.url import domain_key, host_of


@dataclass
class Clock:
    """Monotonic seconds that a test moves, from 100 s on."""

    now: float = 100.0

    def __call__(self) -> float:
        """The seconds now."""
        return self.now


def lease(number: int = 1, **changes: Any) -> Lease:
    """A grant of ``http://a.example/<number>``, or another domain, asked for at 100 s."""
    entry = changes.get("entry") or Entry(
        url=f"http://{changes.get('domain', 'a.example')}/{number}"
    )
    values: dict[str, Any] = {
        "token": f"1-{number}",
        "crawl": CrawlKey("link", "app", "crawl"),
        "run": 1,
        "domain": domain_key(host_of(entry.url)),
        "priority": 1,
        "entry": entry,
        "profile": Profile(),
        "retries": 0,
        "issued_at": 100.0,
    }
    return Lease(**values | changes)
