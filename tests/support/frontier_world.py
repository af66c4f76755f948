"""The small world of random lives: its crawls, domains, rules and limits, and what workers say."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Release, Requeue, Sent, Settle
from crawlstream.model.throttle import ThrottleRule
from support.frontier import WIDE_OPEN

HOUR_MS = 3_600_000
MOST_GAINED_MS = 60_000
"""What a busy machine may take for a step; a clock that is set by an hour must not matter."""
COMMANDS = (*["stop"] * 5, *["pause"] * 3, *["resume"] * 3, *["reprioritize"] * 3, "info")
LEDGER = (
    *("admitted", "queued", "delayed", "held", "spilled"),
    *("done", "failed", "redirected", "stopped", "expired"),
)
UNKNOWN = "9999-1"
"""A token that was never given."""
SHARED = "shared.example"
DOMAINS = {
    "link": ("a.example", "b.example", "10.0.0.1", "::1", SHARED),
    "wan der:er": ("c.example", "d.example", SHARED),
}
CRAWLS = (
    CrawlKey("link", "app", "one"),
    CrawlKey("link", "app", "two: ü%*"),
    CrawlKey("link", "other app", "capped"),
    CrawlKey("wan der:er", "app", "one"),
)
CAPS: dict[CrawlKey, tuple[int | None, int | None]] = dict.fromkeys(CRAWLS, (None, None))
CAPS[CRAWLS[2]] = (6, 15)
RULES = (
    WIDE_OPEN,
    ThrottleRule(hits=5, window_s=1),
    ThrottleRule(hits=3, window_s=2, moderated=False),
    ThrottleRule(hits=100, window_s=0.001, moderated=False, concurrency=2),
    ThrottleRule(hits=0, window_s=1),
)


@dataclass
class Told:
    """What a worker says in one exchange."""

    sent: list[Sent] = field(default_factory=list)
    settles: list[Settle] = field(default_factory=list)
    requeues: list[Requeue] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)

    @property
    def ended(self) -> set[str]:
        """Tokens of the holds that it ends."""
        return {
            *(end.token for end in self.settles),
            *(end.token for end in self.requeues),
            *(end.token for end in self.releases),
        }
