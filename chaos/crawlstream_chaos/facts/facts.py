"""Observations of a cluster under faults; the auditor judges nothing else.

Times are milliseconds of the monotonic clock, which all processes of one machine share: no step of
the wall clock changes a fact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream_chaos.facts.scrapes import SeenScrapes
from crawlstream_chaos.facts.spending import Spending
from crawlstream_chaos.facts.stored import Stored
from crawlstream_chaos.facts.trace_collector import SeenSpan
from crawlstream_chaos.witness import ENDINGS, SeenRecord
from crawlstream_cli.demo.access_log import LoggedRequest

APP = "chaos"
"""The application that feeds everything."""
RESULTS, EVENTS, REPLIES = "crawled_firehose", "events", "outbound_firehose"
FIRED = "schedule_fired"
"""The event of a firing."""
ENDS = ("done", "failed", "redirected", "skipped", "stopped", "expired")
"""Counters of entries that came to their end."""
GOES_BACK = frozenset(
    {"power-cut", "cut-partition", "cut-home", "empty-redis", "wipe-partition", "wipe-home"}
)
"""Faults after which a Redis has forgotten its last second, or all."""
WIPES = frozenset({"empty-redis", "wipe-partition", "wipe-home"})
"""Faults after which it has forgotten all."""
EMPTIES_SHELF = "empty-shelf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Firings:
    """How often a schedule has fed its crawl, each time after the end of the run before."""

    schedule: str
    told: int = 0
    """Number of reported firings."""
    untold: int = 0
    """Number of requested firings without any report: neither that it fired nor why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedCrawl:
    """A crawl that was fed, and its expected results if it ends by itself."""

    crawlid: str
    spiderid: str = "link"
    delivered: Mapping[str, int]
    """URL of each page that must come -> its HTTP status."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """URL of each page that must fail -> the reason."""
    may_be_skipped: frozenset[str] = frozenset()
    """URLs of pages that the waste guard may skip or leave out; else they come with status 200."""
    redirected: int = 0
    """How many pages only lead to others."""
    is_stopped: bool = False
    """True if it was stopped: then the results so far are complete."""
    runs: int = 1
    """As how many runs it may be crawled, where seeds that were fed at once are read apart."""
    firings: Firings | None = None
    """How a schedule feeds it; None: a client does, once."""

    waiting: Mapping[str, str] = field(default_factory=dict)
    """URL of each seed whose client waits for the page, by the uuid of its request."""

    @property
    def times(self) -> int:
        """Return how often its seeds were fed."""
        return self.firings.told if self.firings else 1

    @property
    def key(self) -> CrawlKey:
        """Its name in the frontier."""
        return CrawlKey(self.spiderid, APP, self.crawlid)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(SeenRecord):
    """A record of an output topic, its body left out."""

    partition: int
    offset: int
    at: float
    """When it was read."""

    @property
    def place(self) -> tuple[str, int]:
        """The log that it is in."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """A rule of a host for a time: ``hits`` in any window that touches it."""

    host: str
    hits: int
    window_s: float
    since: float = float("-inf")
    until: float = float("inf")


@dataclass(frozen=True, slots=True)
class Published:
    """The directory of keys from a time on, until the next one."""

    since: float
    keys: Mapping[str, str]
    """Public keys in base64url, by keyid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSample:
    """Ledgers in the middle of the crawl, and what Kafka had on disk right after they were read."""

    at: float
    ledgers: Sequence[CrawlState]
    logged: Mapping[tuple[str, int], int]
    """(topic, partition) -> records in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault that was injected into the cluster."""

    fault: str
    target: str
    at: float
    seconds: float = 0.0
    """How long it lasted."""
    was_pending: bool = True
    """True if pages were queued or in flight when it struck."""
    in_flight: int = 0
    """Number of pages that may be delivered again because of it."""
    began_again: bool = False
    """True if unfinished crawls begin again after it."""


@dataclass(slots=True)
class ByProxies:
    """Observations of the proxies of a round, which record them here."""

    departures: list[LoggedRequest] = field(default_factory=list)
    """Requests in tunnels as they came in; status 0."""
    broken: Counter[str] = field(default_factory=Counter)
    """Ways to a host that were asked for and never stood, or were cut, or led nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was seen of some crawls, from before they were fed until after they had ended."""

    fed: Sequence[FedCrawl]
    records: Sequence[TopicRecord]
    visits: Sequence[LoggedRequest] = ()
    rules: Sequence[HostRule] = ()
    samples: Sequence[LedgerSample] = ()
    strikes: Sequence[Strike] = ()
    asked: frozenset[str] = frozenset()
    """Ids of the questions that want an answer."""
    leaks: Mapping[str, int] = field(default_factory=dict)
    """Errors that the frontier's own balance has found, under their names."""

    shelf_lost: Mapping[str, int] = field(default_factory=dict)
    """Pages that were reported as lost on the shelf, by crawl."""
    pool: str = ""
    """The pool of proxies that every page has to come through; empty: any way will do."""
    by_proxies: ByProxies = field(default_factory=ByProxies)
    """Observations of these proxies."""
    render: int = 0
    """Further requests that a rendered page may bring each time that it is asked for."""
    stores: Sequence[Stored] = ()
    """Contents of the pipelines' stores; empty if no pipeline ran."""
    unreadable: Sequence[str] = ()
    """Places of records on the topic of results that are none: TOPIC-PARTITION-OFFSET."""
    own_topic: frozenset[str] | None = None
    """Keys of the results on the application's own topic; None: it was not read."""
    undelivered: frozenset[str] = frozenset()
    """Keys of what pipelines could not deliver."""
    published: Sequence[Published] = ()
    """Directories of keys, in the order of their times; empty if requests are not signed."""
    bans: Mapping[str, str] = field(default_factory=dict)
    """Why bodies are not kept, ``noindex`` or ``reserved``, by the URLs of their pages."""
    spending: Spending | None = None
    """The purse of all crawls; None: they pay nothing."""
    scrapes: SeenScrapes | None = None
    """Clients that scraped meanwhile; None: there were none."""

    spans: Sequence[SeenSpan] | None = None
    """Spans that the collector has got; None: traces are off."""

    def on(self, topic: str, crawlid: str) -> Sequence[TopicRecord]:
        """Records of one crawl on one topic, in the order in which they were read."""
        return [r for r in self.records if r.topic == topic and r.value.get("crawlid") == crawlid]


def has_ended(fed: FedCrawl, records: Sequence[TopicRecord]) -> bool:
    """Return whether a crawl has ended, and no pending request would begin another run of it."""
    ended = {r.value["run"] for r in records if r.topic == EVENTS and r.value["event"] in ENDINGS}
    if fed.runs == 1:
        return bool(ended)
    came = {r.value["id"]: r.value for r in records if r.topic == RESULTS}
    times = Counter(value["url"] for value in came.values())
    is_whole = all(times[url] >= max(fed.times, 1) for url in fed.delivered)
    return is_whole and ended >= {value["run"] for value in came.values()}


def times_fed(facts: Facts, fed: FedCrawl) -> range:
    """Return how often the seeds of a crawl may have taken effect.

    A Redis that goes back may have forgotten a requested firing, which is requested again.
    """
    most = fed.runs if fed.firings and has_gone_back(facts) else fed.times
    return range(fed.times, most + 1)


def has_gone_back(facts: Facts) -> bool:
    """Return whether a Redis has lost data."""
    return any(strike.fault in GOES_BACK for strike in facts.strikes)


def may_miss(facts: Facts, fed: FedCrawl) -> bool:
    """Return whether pages may be missing: the crawl was stopped, or its shelf was emptied.

    The loss of the shelf must have been reported. The links on its pages are not found then,
    either.
    """
    is_emptied = any(strike.fault == EMPTIES_SHELF for strike in facts.strikes)
    return fed.is_stopped or (is_emptied and facts.shelf_lost.get(fed.crawlid, 0) > 0)


def may_forget(facts: Facts, fed: FedCrawl) -> bool:
    """Return whether a Redis may have lost data of a crawl, and a stop prevented its repetition."""
    return fed.is_stopped and has_gone_back(facts)


def endings_of(facts: Facts, fed: FedCrawl) -> Sequence[TopicRecord]:
    """The endings of a crawl's runs, in the order in which they were read."""
    return [r for r in facts.on(EVENTS, fed.crawlid) if r.value["event"] in ENDINGS]


def named_as_skipped(facts: Facts, fed: FedCrawl, run: int) -> Mapping[str, str]:
    """Return the URLs of the pages that events of a run name as skipped, by id."""
    return {
        page["id"]: page["url"]
        for record in facts.on(EVENTS, fed.crawlid)
        if record.value["event"] == "pages_skipped" and record.value["run"] == run
        for page in record.value["pages"]
    }


class RoundFailed(CrawlstreamError):
    """A round of chaos could not be played to its end."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that was broken, and how."""

    law: str
    what: str


def identity(event: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the fields in which two records of the events topic are equal if the event is."""
    return event["event"], event["crawlid"], event.get("run"), event.get("id"), event.get("at")


def repeats(facts: Facts) -> list[TopicRecord]:
    """Results that had come before, in the order in which they came."""
    seen: set[tuple[str, str]] = set()
    found = []
    for record in facts.records:
        if record.topic == RESULTS:
            name = record.value["crawlid"], record.value["id"]
            if name in seen:
                found.append(record)
            seen.add(name)
    return found


@dataclass(frozen=True, slots=True)
class RunEndings:
    """Reports of the endings of the runs, before any repetition is dropped."""

    runs: int
    once: int
    """Runs whose ending has exactly one record."""
    repeats: Sequence[TopicRecord]
    """Records of an ending that had come before under the same key."""

    def __str__(self) -> str:
        once = f"endings told once: {self.once} of {self.runs} runs"
        return f"{once}, repeats under the same key: {len(self.repeats)}"


def endings_told(facts: Facts) -> RunEndings:
    """Count the records of endings as they stand in Kafka."""
    keys: dict[tuple[str, int], list[str | None]] = defaultdict(list)
    repeated = []
    for record in facts.records:
        if record.topic == EVENTS and record.value["event"] in ENDINGS:
            told = keys[record.value["crawlid"], record.value["run"]]
            if record.key in told:
                repeated.append(record)
            told.append(record.key)
    return RunEndings(len(keys), sum(len(told) == 1 for told in keys.values()), repeated)
