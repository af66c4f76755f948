"""The Redis keys that Python uses, and all Kafka topics; no other module builds their names.

All keys of a partition begin with its hash tag, so that a script call touches one slot. Scripts
append the rest of a key, by ``frontier/lua/includes/keys.lua``; ids in it are percent-encoded.
``docs/keys.md`` lists all. Topics of applications exist for ids of ``[A-Za-z0-9._-]`` only.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from urllib.parse import quote
from zlib import crc32

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream.model.run_marks import PAUSE, RESUME, RUNNING, STOP, RunMark

_TOPIC_SAFE = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")


@lru_cache(maxsize=4096)
def encode_id(text: str) -> str:
    """Make any id safe in a key: separators and non-ASCII characters become ``%XX``."""
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class FrontierKeys:
    """Keys of one partition of a frontier that Python itself reads or writes."""

    namespace: str = "cs"
    suffix: str = "0"
    """Suffix of the hash tag; see ``Partitions``."""

    @property
    def tag(self) -> str:
        """Return the prefix of every key; scripts append the rest."""
        return f"{{{self.namespace}{self.suffix}}}"

    @property
    def is_sharded(self) -> bool:
        """Return whether there are several partitions: then channels exist on one node only."""
        return "." in self.suffix

    @staticmethod
    def crawl_field(crawl: CrawlKey) -> str:
        """Return a crawl's name as one field: its three ids, encoded, joined by colons."""
        return ":".join(map(encode_id, (crawl.spiderid, crawl.appid, crawl.crawlid)))

    def layout(self) -> str:
        """Layout of a frontier with several partitions; under the tag of one with a single one."""
        return self.tag + "layout"

    def meta(self) -> str:
        """Clock, Redis epoch and version of the rules."""
        return self.tag + "m"

    def indexnow(self, what: str) -> str:
        """Mark of a key that was proven, or of a domain that was asked for one."""
        return f"{self.tag}indexnow:{what}"

    def moved(self) -> str:
        """Former ``meta`` of a frontier that was moved away."""
        return self.tag + "moved"

    def positions(self) -> str:
        """Next offset to apply, by topic UUID and Kafka partition."""
        return self.tag + "positions"

    def enrolled(self) -> str:
        """Next offset to enroll, by topic UUID and Kafka partition."""
        return self.tag + "enrolled"

    def late(self) -> str:
        """Next offset of seeds whose coordinator was unavailable, by place and coordinator."""
        return self.tag + "late"

    def open_runs(self) -> str:
        """Open runs of the crawls that this partition coordinates, by their last seed."""
        return self.tag + "open"

    def closing(self) -> str:
        """Stopped or expired runs of these crawls that still have pages in flight."""
        return self.tag + "closing"

    def epochs(self) -> str:
        """Kafka leader epoch at the position, by topic UUID and Kafka partition."""
        return self.tag + "epochs"

    def stops(self) -> str:
        """Pattern of the latest stop of each crawl."""
        return self.tag + "stop:*"

    def kept(self) -> Sequence[str]:
        """Return patterns of keys in every partition that a move of the frontier keeps."""
        return [self.stops(), self.tag + "occasion:*", self.tag + "views:*"]

    def kept_of_cluster(self) -> Sequence[str]:
        """Return patterns of keys of the whole cluster that a move of the frontier keeps."""
        schedules = [self.schedules(), self.schedule("*"), self.tag + "skipping"]
        proxies = [self.proxy_health(), self.proxy_spent("*"), self.tag + "proxies:rest"]
        rules = [self.rule_changes(), self.rule_authors(), self.tag + "guarded"]
        return [*schedules, *proxies, *rules, self.stats("*", "*"), self.tag + "purse*"]

    def chunk_lists(self) -> str:
        """Pattern of the chunk lists of queues."""
        return self.tag + "bc:*:*/*:*"

    @property
    def all_of_it(self) -> str:
        """Pattern of all keys of a partition."""
        return self.tag + "*"

    def refused(self) -> str:
        """Refusals that are not reported yet, by topic UUID and Kafka partition."""
        return self.tag + "refused"

    def again(self) -> str:
        """Seeds to read again after a late stop, by topic UUID and Kafka partition."""
        return self.tag + "again"

    def attempts(self) -> str:
        """Latest assignments of partitions, and records that may crash their reader."""
        return self.tag + "attempts"

    def overflow(self) -> str:
        """Next offset of spilled links to recall, by topic UUID and Kafka partition."""
        return self.tag + "overflow"

    def lost(self) -> str:
        """State that is still to be restored after a loss of Redis."""
        return self.tag + "lost"

    def table(self) -> str:
        """Copy of the throttle table."""
        return self.tag + "table"

    def proxies(self) -> str:
        """Copy of the proxy pools."""
        return self.tag + "proxies"

    def proxy_health(self) -> str:
        """Health of each proxy."""
        return self.tag + "proxies:health"

    def proxy_spent(self, day: str) -> str:
        """Spending of pools on a day, which is counted from the epoch in UTC."""
        return f"{self.tag}proxies:spent:{day}"

    def unserved(self, pool: str, domain: str) -> str:
        """Time since which no proxy of a pool reaches a domain, in epoch seconds."""
        return f"{self.tag}unserved:{pool}:{domain}"

    def tls(self, pool: str, domain: str) -> str:
        """TLS profile of a pool's pages on a domain; default: the first profile of the pool."""
        return f"{self.tag}tls:{pool}:{domain}"

    def names(self) -> str:
        """Crawls whose data is kept, by their names."""
        return self.tag + "names"

    def shelf(self) -> str:
        """State of the shelf, and the last name of a chunk."""
        return self.tag + "shelf"

    def shelved_chunk(self, name: str, id_: str) -> str:
        """Chunk on a shelf server, which frontiers of several names may share."""
        return f"{self.tag}chunk:{name}:{id_}"

    def schedules(self) -> str:
        """Schedules by the time of their next check."""
        return self.tag + "schedules"

    def schedule(self, field: str) -> str:
        """Schedule and its progress; see ``schedule_field``."""
        return f"{self.tag}schedule:{field}"

    def occasion(self, occasion: str, part: int) -> str:
        """Records of an occasion that have taken effect, as bits."""
        return f"{self.tag}occasion:{occasion}:{part}"

    @staticmethod
    def schedule_field(appid: str, name: str) -> str:
        """Return a schedule's name as one field: its application, encoded, and its own name."""
        return f"{encode_id(appid)}:{name}"

    def actions(self) -> str:
        """Stream of requests that wait for a reply of redis-monitor."""
        return self.tag + "actions"

    def outbox(self) -> str:
        """Stream of records to be published."""
        return self.tag + "outbox"

    def workers(self) -> str:
        """Workers by their deadline."""
        return self.tag + "workers"

    def wake_channel(self, worker: str) -> str:
        """Channel that wakes a waiting worker when there is work."""
        return f"{self.tag}wake:{worker}"

    def robots(self, origin: str) -> str:
        """Cached robots.txt of a ``scheme://host:port``, shared by the cluster."""
        return f"{self.tag}robots:{origin}"

    def guard(self, domain: str) -> str:
        """Sketch of a site for the waste guard."""
        return f"{self.tag}g:{domain}"

    def process(self, name: str) -> str:
        """Heartbeat of one process."""
        return f"{self.tag}process:{name}"

    def wishes(self, name: str) -> str:
        """Requests of operators to one process."""
        return f"{self.tag}wishes:{name}"

    def processes(self) -> str:
        """Index of the processes by the time of their last heartbeat."""
        return self.tag + "processes"

    def rule_changes(self) -> str:
        """Latest changes of the throttle rules, by time."""
        return self.tag + "rule-changes"

    def rule_authors(self) -> str:
        """Authors of the latest versions of the throttle rules, by time."""
        return self.tag + "rule-authors"

    def stats(self, family: str, bucket: str) -> str:
        """Counters of one family in one time bucket."""
        return f"{self.tag}stats:{family}:{bucket}"


SLOTS = 16384
"""Hash slots of a Redis Cluster."""
MOST_PARTITIONS = 256


@dataclass(frozen=True, slots=True)
class Partitions:
    """Map of a frontier: which partition has a domain's data, and which a crawl's registry.

    The number never changes for a namespace: machines are added by moving slots between them. The
    tags of N partitions lie in N equal, contiguous ranges of slots, in order, so that nodes with
    equal ranges have equal shares. Raise ValueError if ``number`` is not between 1 and 256.
    """

    namespace: str = "cs"
    number: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= MOST_PARTITIONS:
            raise ValueError(f"a frontier has 1 to {MOST_PARTITIONS} partitions")

    def of(self, domain: str) -> int:
        """Return the partition of a domain key, and of all sites in that domain."""
        return crc32(domain.encode()) % self.number

    def coordinator(self, crawl: CrawlKey) -> int:
        """Return the coordinator of a crawl: the partition with its registry."""
        return self.coordinator_of(FrontierKeys.crawl_field(crawl).encode())

    def coordinator_of(self, name: bytes) -> int:
        """Return the coordinator of a crawl by its name, a result of ``crawl_field``."""
        return crc32(b"crawl:" + name) % self.number

    def keys(self, partition: int) -> FrontierKeys:
        """Return the keys of one partition; raise IndexError if it does not exist."""
        if not 0 <= partition < self.number:
            raise IndexError(f"partition {partition} of {self.number}")
        if self.number == 1:
            return self.root
        return FrontierKeys(self.namespace, _suffix(self.namespace, partition, self.number))

    @property
    def root(self) -> FrontierKeys:
        """Return the keys of a single partition; the layout of several is also among them."""
        return FrontierKeys(self.namespace)


@lru_cache(maxsize=4 * MOST_PARTITIONS)
def _suffix(namespace: str, partition: int, number: int) -> str:
    """Return the first suffix whose slot lies in the partition's share, of about ``number``."""
    share = range(partition * SLOTS // number, (partition + 1) * SLOTS // number)
    suffixes = (f"{partition}.{tried}" for tried in count())
    return next(s for s in suffixes if crc_hqx(f"{namespace}{s}".encode(), 0) % SLOTS in share)


@dataclass(frozen=True, slots=True)
class Topics:
    """Kafka topic names under one prefix."""

    prefix: str = "demo"
    incoming_name: str | None = None
    """Name instead of ``<prefix>.incoming`` (the predecessor's KAFKA_INCOMING_TOPIC)."""

    @property
    def incoming(self) -> str:
        """Requests of all kinds, from clients."""
        return self.incoming_name or f"{self.prefix}.incoming"

    @property
    def crawled(self) -> str:
        """All crawl results."""
        return f"{self.prefix}.crawled_firehose"

    @property
    def requisites(self) -> str:
        """Requisites of archived pages: images, styles, scripts."""
        return f"{self.prefix}.requisites"

    @property
    def outbound(self) -> str:
        """All replies to action, stats and zookeeper requests."""
        return f"{self.prefix}.outbound_firehose"

    @property
    def events(self) -> str:
        """Starts and ends of crawls, and failed pages."""
        return f"{self.prefix}.events"

    @property
    def rejected(self) -> str:
        """Records that could not take effect, with their reason."""
        return f"{self.prefix}.rejected"

    @property
    def undelivered(self) -> str:
        """Records that a pipeline could not deliver, with their reason."""
        return f"{self.prefix}.undelivered"

    @property
    def runs(self) -> str:
        """Latest state of every run, to restore it after a loss of Redis; compacted."""
        return f"{self.prefix}.runs"

    @property
    def schedules(self) -> str:
        """Schedules and their progress, to restore them after a loss of Redis; compacted."""
        return f"{self.prefix}.schedules"

    @property
    def pipelines(self) -> str:
        """Progress of pipelines whose sink is a topic; compacted, created with the first one."""
        return f"{self.prefix}.pipelines"

    @property
    def overflow(self) -> str:
        """Links that wait for room in Redis; internal: clients neither read nor write it."""
        return f"{self.prefix}.overflow"

    @property
    def links(self) -> str:
        """Links to other partitions of the frontier, if there are several; internal."""
        return f"{self.prefix}.links"

    @staticmethod
    def run_key(mark: RunMark) -> bytes:
        """Return the key in `runs`: separate for a run's start and end, and a crawl's commands."""
        whole = {STOP: STOP, PAUSE: PAUSE, RESUME: PAUSE, RUNNING: f"{mark.run}"}
        which = whole.get(mark.state, f"{mark.run}:ended")
        return f"{FrontierKeys.crawl_field(mark.crawl)}:{which}".encode()

    COORDINATOR_KEYS = b"home:"
    """Prefix of the keys of coordinators' marks on the topic `runs`."""

    @classmethod
    def coordinator_key(cls, coordinator: int, mark: CoordinatorMark) -> bytes:
        """Return the key of a coordinator's mark: a mark is repeated, but never replaced."""
        crawl = FrontierKeys.crawl_field(mark.crawl) if mark.crawl else ""
        which = f"{mark.kind}:{mark.redis_epoch}:{mark.generation}:{mark.run}:{crawl}"
        return cls.COORDINATOR_KEYS + f"{coordinator}:{which}".encode()

    @staticmethod
    def schedule_key(appid: str, name: str, *, is_fired: bool = False) -> bytes:
        """Return the key in `schedules`: separate for a schedule and its progress."""
        field = FrontierKeys.schedule_field(appid, name)
        return (f"{field}:fired" if is_fired else field).encode()

    @staticmethod
    def for_app(firehose: str, appid: str) -> str | None:
        """Return the topic of one application, by that of all; None if its id cannot name one."""
        is_safe = appid != "firehose" and _TOPIC_SAFE.match(appid) is not None
        return firehose.removesuffix("firehose") + appid if is_safe else None

    def all(self) -> tuple[str, ...]:
        """Return the topics that exist before the first record."""
        return (
            *(self.incoming, self.crawled, self.outbound, self.events, self.rejected),
            *(self.runs, self.schedules, self.overflow, self.undelivered, self.requisites),
        )
