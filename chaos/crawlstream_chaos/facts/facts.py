"""What was seen of a cluster under faults; the auditor judges nothing else.

Times are milliseconds of the monotonic clock, which all processes of one machine share: no step of
the wall clock moves a fact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream_chaos.facts.stored import Stored
from crawlstream_chaos.witness import ENDINGS, SeenRecord
from crawlstream_cli.demo.visits import Visit

APP = "chaos"
"""The application that feeds everything."""
RESULTS, EVENTS, REPLIES = "crawled_firehose", "events", "outbound_firehose"
ENDS = ("done", "failed", "redirected", "stopped", "expired")
"""Counters of entries that came to their end."""
GOES_BACK = frozenset(
    {"power-cut", "cut-partition", "cut-home", "empty-redis", "wipe-partition", "wipe-home"}
)
"""Faults after which a Redis has forgotten its last second, or all."""
WIPES = frozenset({"empty-redis", "wipe-partition", "wipe-home"})
"""Those after which it has forgotten all."""
EMPTIES_SHELF = "empty-shelf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Firings:
    """How often a schedule has fed its crawl, each time after the end of the run before."""

    schedule: str
    told: int = 0
    """Firings that were told."""
    untold: int = 0
    """Firings that were asked for, of which nothing was told: neither that it fired nor why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedCrawl:
    """One crawl that was fed, and what it must bring if it is left to its own end."""

    crawlid: str
    spiderid: str = "link"
    delivered: Mapping[str, int]
    """URL of each page that must come -> its HTTP status."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """URL of each page that must fail -> the reason."""
    redirected: int = 0
    """How many pages only lead to others."""
    is_stopped: bool = False
    """Whether somebody stopped it: then what has come by then is all of it."""
    runs: int = 1
    """As how many runs it may be crawled, where seeds that were fed at once are read apart."""
    firings: Firings | None = None
    """How a schedule feeds it; None: a client does, once."""

    @property
    def times(self) -> int:
        """How often its seeds were fed."""
        return self.firings.told if self.firings else 1

    @property
    def key(self) -> CrawlKey:
        """Its name in the frontier."""
        return CrawlKey(self.spiderid, APP, self.crawlid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(SeenRecord):
    """One record of an output topic, its body left out."""

    partition: int
    offset: int
    at: float
    """When it was read."""

    @property
    def place(self) -> tuple[str, int]:
        """The log that it is in."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a host allowed for a time: so many hits in any window that touches it."""

    host: str
    hits: int
    window_s: float
    since: float = float("-inf")
    until: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Ledgers in the middle of the crawl, and what Kafka had on disk right after they were read."""

    at: float
    ledgers: Sequence[CrawlState]
    logged: Mapping[tuple[str, int], int]
    """(topic, partition) -> records in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault that was done to the cluster."""

    fault: str
    target: str
    at: float
    seconds: float = 0.0
    """How long it lasted."""
    was_pending: bool = True
    """Whether pages waited or were under way when it struck."""
    in_flight: int = 0
    """Pages that it may have made somebody deliver again."""
    began_again: bool = False
    """Whether unfinished crawls begin again after it."""


@dataclass(slots=True)
class ByProxies:
    """What the proxies of a round have seen, which are told to note it here."""

    departures: list[Visit] = field(default_factory=list)
    """Requests in tunnels as they came in; status 0."""
    broken: Counter[str] = field(default_factory=Counter)
    """Ways to a host that were asked for and never stood, or were cut, or led nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was seen of some crawls, from before they were fed until after they had ended."""

    fed: Sequence[FedCrawl]
    records: Sequence[Record]
    visits: Sequence[Visit] = ()
    rules: Sequence[Rule] = ()
    samples: Sequence[Sample] = ()
    strikes: Sequence[Strike] = ()
    asked: frozenset[str] = frozenset()
    """Ids of the questions that want an answer."""
    leaks: Mapping[str, int] = field(default_factory=dict)
    """What the frontier's own balance found wrong, by name."""

    shelf_lost: Mapping[str, int] = field(default_factory=dict)
    """Pages that were told as lost on the shelf, by crawl."""
    pool: str = ""
    """The pool of proxies that every page has to come through; empty: any way will do."""
    by_proxies: ByProxies = field(default_factory=ByProxies)
    """What those have seen."""
    render: int = 0
    """Further requests that a rendered page may bring each time that it is asked for."""
    stores: Sequence[Stored] = ()
    """What pipelines have stored; none where no pipeline ran."""
    unreadable: Sequence[str] = ()
    """Places of records on the topic of results that are none: TOPIC-PARTITION-OFFSET."""
    own_topic: frozenset[str] | None = None
    """Keys of the results on the application's own topic; None: nobody has looked."""
    undelivered: frozenset[str] = frozenset()
    """Keys of what pipelines could not deliver."""

    def on(self, topic: str, crawlid: str) -> Sequence[Record]:
        """Records of one crawl on one topic, in the order in which they were read."""
        return [r for r in self.records if r.topic == topic and r.value.get("crawlid") == crawlid]


def has_ended(fed: FedCrawl, records: Sequence[Record]) -> bool:
    """Whether a crawl has ended, and nothing is to come that would begin another run of it."""
    ended = {r.value["run"] for r in records if r.topic == EVENTS and r.value["event"] in ENDINGS}
    if fed.runs == 1:
        return bool(ended)
    came = {r.value["id"]: r.value for r in records if r.topic == RESULTS}
    times = Counter(value["url"] for value in came.values())
    is_whole = all(times[url] >= max(fed.times, 1) for url in fed.delivered)
    return is_whole and ended >= {value["run"] for value in came.values()}


def times_fed(facts: Facts, fed: FedCrawl) -> range:
    """How often the seeds of a crawl may have taken effect.

    A Redis that goes back may have forgotten a firing that was asked for, and is asked again.
    """
    most = fed.runs if fed.firings and has_gone_back(facts) else fed.times
    return range(fed.times, most + 1)


def has_gone_back(facts: Facts) -> bool:
    """Whether a Redis has forgotten something."""
    return any(strike.fault in GOES_BACK for strike in facts.strikes)


def may_miss(facts: Facts, fed: FedCrawl) -> bool:
    """Whether pages need not come: a person stopped it, or their shelf was emptied and it is told.

    Then nobody finds what stands on them, either.
    """
    is_emptied = any(strike.fault == EMPTIES_SHELF for strike in facts.strikes)
    return fed.is_stopped or (is_emptied and facts.shelf_lost.get(fed.crawlid, 0) > 0)


def may_forget(facts: Facts, fed: FedCrawl) -> bool:
    """Whether a Redis may have forgotten of a crawl what a stop then kept from happening again."""
    return fed.is_stopped and has_gone_back(facts)


def endings_of(facts: Facts, fed: FedCrawl) -> Sequence[Record]:
    """The endings of a crawl's runs, in the order in which they were read."""
    return [r for r in facts.on(EVENTS, fed.crawlid) if r.value["event"] in ENDINGS]


class RoundFailed(CrawlstreamError):
    """A round of chaos could not be played to its end."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that was broken, and how."""

    law: str
    what: str


def identity(event: Mapping[str, Any]) -> tuple[object, ...]:
    """What makes two records of the events topic one and the same event."""
    return event["event"], event["crawlid"], event.get("run"), event.get("id"), event.get("at")


def repeats(facts: Facts) -> list[Record]:
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
    """How the endings of the runs were told, before any repetition is dropped."""

    runs: int
    once: int
    """Runs whose ending has exactly one record."""
    repeats: Sequence[Record]
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
