"""Values of the plain model of the frontier: entries, generations of crawls, domains."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlstream.model.crawl import Budgets, CrawlKey
from crawlstream.model.throttle_table import ThrottleRule

UNHEARD_MS = 1_000
"""So long workers may send what a life of Redis granted after it has ended."""


@dataclass(eq=False)
class Item:
    """An entry, wherever it is."""

    url: str
    origin: str | None
    spider: str
    domain: str
    priority: int
    of: Generation
    retries: int = 0
    deaths: int = 0
    reaps: int = 0
    mark: str | None = None
    """Fingerprint, while there may be another entry of its page."""
    depth: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether another entry of its page was leased."""
        return self.mark is not None and (self.domain, self.mark) not in self.of.listed


@dataclass
class Listed:
    """A page that waits in a crawl with a score."""

    depth: int
    """The least of all links to it."""
    spider: str
    """As the frontier writes it, behind a blank; empty for that of the crawl."""
    links: int = 1
    """3: it was promoted."""
    has_several: bool = False
    """True if it has several entries."""


class Found(NamedTuple):
    """How links were found."""

    counts: bool
    linked: int = 0
    standing: str = ""
    source: str = ""
    """Domain of their page."""

    @property
    def weight(self) -> int:
        """Return 0 for links that do not promote pages, else 1."""
        return int(not self.standing.startswith("-"))


@dataclass
class Host:
    """A domain in a crawl with a host budget."""

    bits: set[int] = field(default_factory=set)
    """Bits of trusted domains that link to it."""
    is_of_seed: bool = False
    pages: int = 0
    """Pages that were admitted to their own bands."""


@dataclass(eq=False)
class Generation:
    """The life of one crawl number: dedupe and caps over all its runs, the ledger of the latest."""

    crawl: CrawlKey
    run: int = 0
    state: str = "finished"
    takes_seeds: bool = True
    over_time: bool = False
    is_paused: bool = False
    is_pause_over: bool = False
    """True once the time has come at which its pause ends by itself."""
    top: int | None = None
    """Highest priority of a seed of the run."""
    shift: int = 0
    idle_since: int | None = None
    known: set[tuple[str, str]] = field(default_factory=set)
    counted: Counter[str] = field(default_factory=Counter)
    ledger: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    bodies: Counter[str] = field(default_factory=Counter)
    """Fields of its ledger about bodies that were not kept, and reserved pages."""
    spills: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Links of ended pages that wait in Kafka, and since when, by the name of their record."""
    first_seeds: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Timestamp and offset of the run's first seed, by Kafka partition."""
    latest_seeds: dict[int, int] = field(default_factory=dict)
    """Latest timestamp of a seed of the run, by Kafka partition."""
    expires_by: tuple[int, int, int] = (0, 0, 0)
    """Time, partition and offset of the seed that says when the run's time is over."""

    occasion: str | None = None
    """The latest that a seed of the run has named, as Redis writes it."""
    ended_at: int = 0
    """When its latest run came to its end."""
    remember: int | None = None
    """Seconds for which its dedupe outlives a finished run, as seeds have said."""
    remember_by: tuple[int, int, int] = (0, 0, 0)
    """Time, partition and offset of the seed that says so."""
    budgets: Budgets = field(default_factory=Budgets)
    budgets_by: tuple[int, int, int] = (0, 0, 0)
    """Time, partition and offset of the seed that sets them."""
    used: dict[str, list[int]] = field(default_factory=dict)
    """Bytes, done and failed pages of domains with budgets."""
    spent: set[str] = field(default_factory=set)
    """Domains that have spent their budget."""
    listed: dict[tuple[str, str], Listed] = field(default_factory=dict)
    """Pages that wait and may be promoted, or were."""
    hosts: dict[str, Host] = field(default_factory=dict)
    """Domains of which links have said something, or that have pages in their own bands."""
    ended_by: str = ""
    """The budget that has set its end; empty: a time of a seed."""

    def set_end(self, expires: int, budgets: Budgets | None, by: tuple[int, int, int]) -> None:
        """Let a seed say when it ends: 1 has come, everything else of these tests is far."""
        max_seconds = budgets and budgets.max_seconds
        if (expires or max_seconds) and self.is_open and by > self.expires_by:
            self.over_time, self.expires_by = expires == 1, by
            self.ended_by = "max_seconds" if max_seconds and expires != 1 else ""
        if budgets and by > self.budgets_by:
            self.budgets, self.budgets_by = budgets, by

    def use(self, domain: str, used: list[int], most_bytes: int) -> None:
        """Count bytes, done and failed pages of a domain."""
        if self.state == "running":
            former = self.used.get(domain, [0, 0, 0])
            self.used[domain] = [a + b for a, b in zip(former, used, strict=True)]
            if self.used[domain][0] >= most_bytes:
                self.spent.add(domain)

    def look_at_budgets(self) -> None:
        """Its time is over once it has spent a budget."""
        spent = self.budgets.spent_by(self.ledger)
        if spent and self.is_open:
            self.over_time, self.ended_by = True, spent

    @property
    def is_open(self) -> bool:
        """Return whether its entries may be admitted."""
        return self.state == "running" and not self.over_time

    @property
    def may_lease(self) -> bool:
        """Return whether its entries may be leased."""
        return self.is_open and not self.is_paused

    @property
    def waiting(self) -> int:
        """Entries that wait, now or later."""
        return self.ledger["queued"] + self.ledger["delayed"]

    @property
    def left(self) -> int:
        """Entries that have not come to their end."""
        return sum(self.ledger[name] for name in ("queued", "delayed", "held", "spilled"))


@dataclass(frozen=True)
class Place:
    """Where a record stands, and its time."""

    partition: int
    offset: int
    at: int


@dataclass(frozen=True)
class Again:
    """Seeds of a crawl that are younger than a stop, between two offsets."""

    crawl: CrawlKey
    after: int
    begin: int
    end: int


@dataclass
class Spilled:
    """A record that was sent to Kafka: links of a page, as they were found."""

    of: Generation
    run: int
    worker: str
    token: str
    chunk: int
    groups: list[tuple[list[tuple[str, Item]], Found]]
    """Fingerprints and items, and how they were found."""

    @property
    def name(self) -> str:
        """Return the name under which it is registered."""
        return f"{self.worker} {self.token} {self.chunk}"


@dataclass
class Held:
    """An item that a worker has leased."""

    item: Item
    since: int
    is_reported: bool = False
    is_received: bool = False
    is_spare: bool = False
    gate: str = ""
    """Gate that it uses; empty: none."""


def bucket_ms(rule: ThrottleRule) -> int:
    """How finely the frontier remembers sends under an unmoderated rule."""
    return 1 if rule.effective_hits <= 128 else -(-int(rule.window_s * 1000) // 32)


@dataclass
class Domain:
    """Requests to a domain, as the frontier must count them."""

    rule: ThrottleRule
    ruled_since: int = 0
    sends: list[int] = field(default_factory=list)

    def expire(self, now: int) -> None:
        """Drop sends that no rule of these tests reaches back to."""
        self.sends = [at for at in self.sends if at > now - 60_000]

    def is_spent_by(self, restart: int, now: int) -> bool:
        """Return whether a restart forbids all requests: those before it are unknown."""
        window = int(self.rule.window_s * 1000)
        hits = max(self.rule.effective_hits, 1)
        reach = min(hits, 2) * -(-window // hits) if self.rule.moderated else window
        return restart + UNHEARD_MS + reach > now

    def may_send(self, now: int, unreported: int, concurrent: int, *, is_sure: bool) -> int:
        """How many grants are allowed at least (``is_sure``) or at most.

        What was sent under a former rule counts at least not at all, at most as a whole allowance.
        """
        rule = self.rule
        hits, window, bucket = rule.effective_hits, int(rule.window_s * 1000), bucket_ms(rule)
        room = rule.concurrency - concurrent
        if hits == 0 or room <= 0 or rule.is_paused:
            return 0
        old = [at for at in self.sends if at <= self.ruled_since]
        counted = [at for at in self.sends if at > self.ruled_since]
        if is_sure:
            counted = self.sends
            if not rule.moderated and any(at + bucket + window > now for at in old):
                return 0
        if rule.moderated:
            spacing = -(-window // hits)
            return int(not unreported and all(at + spacing <= now for at in counted))
        reach = window + (bucket if is_sure else 0)
        used = sum(at + reach > now for at in counted)
        return max(min(hits - used - unreported, room), 0)


def grant_order(token: str) -> tuple[int, int]:
    """Return number and place of the call that granted a lease."""
    call, _, place = token.partition("-")
    return int(call), int(place)
