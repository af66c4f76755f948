"""The Redis keys that Python names, and every Kafka topic; no other module makes one.

Redis
    All keys of a partition of a frontier begin with its hash tag, so that one script call touches
    one slot. The tag of a frontier with one partition is ``{<namespace>0}``. A script is given that
    prefix (:attr:`FrontierKeys.tag`) and appends the rest itself, as
    ``frontier/lua/includes/keys.lua`` says: most keys are known to Lua only. A test holds the two
    together, and ``docs/keys.md``, which lists type, content and end of life. Ids may hold any
    printable text: they are percent-encoded before they enter a key.
Kafka
    ``<prefix>.<name>``; per-app topics exist for ids made of ``[A-Za-z0-9._-]`` only.
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
from crawlstream.model.partitions.messages import HomeMark
from crawlstream.model.runs import PAUSE, RESUME, RUNNING, STOP, RunMark

_TOPIC_SAFE = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")

_FIREHOSE = "firehose"


def _has_topic(appid: str) -> bool:
    """Whether an application can have topics of its own: the one that all share is no one's."""
    return appid != _FIREHOSE and _TOPIC_SAFE.match(appid) is not None


@lru_cache(maxsize=4096)
def encode_id(text: str) -> str:
    """Make any id safe inside a key: separators and non-ASCII become ``%XX``."""
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class FrontierKeys:
    """Keys of one partition of a frontier: those that Python reads or writes by itself."""

    namespace: str = "cs"
    suffix: str = "0"
    """Of the hash tag; see ``Partitions``."""

    @property
    def tag(self) -> str:
        """The prefix of every key; scripts append the rest."""
        return f"{{{self.namespace}{self.suffix}}}"

    @property
    def is_sharded(self) -> bool:
        """Whether this is one of several partitions, whose channels are of its node alone."""
        return "." in self.suffix

    @staticmethod
    def crawl_field(crawl: CrawlKey) -> str:
        """A crawl's name as one field: its three ids, encoded, joined by colons."""
        return ":".join(map(encode_id, (crawl.spiderid, crawl.appid, crawl.crawlid)))

    def layout(self) -> str:
        """How a frontier of several partitions is laid out; below the tag of one with one."""
        return self.tag + "layout"

    def meta(self) -> str:
        """The clock, the life and the version of the rules."""
        return self.tag + "m"

    def moved(self) -> str:
        """What ``meta`` was, where the frontier was moved away."""
        return self.tag + "moved"

    def positions(self) -> str:
        """Next offset to apply, by topic UUID and Kafka partition."""
        return self.tag + "positions"

    def enrolled(self) -> str:
        """Next offset to enroll, by topic UUID and Kafka partition."""
        return self.tag + "enrolled"

    def late(self) -> str:
        """Next offset to apply of seeds of homes that were away, by place and home."""
        return self.tag + "late"

    def open_runs(self) -> str:
        """Open runs of the crawls whose home this is, by their last seed."""
        return self.tag + "open"

    def closing(self) -> str:
        """Runs with this home that were stopped or have expired, and still have pages in flight."""
        return self.tag + "closing"

    def epochs(self) -> str:
        """Leader epoch at the position, by topic UUID and Kafka partition."""
        return self.tag + "epochs"

    def stops(self) -> str:
        """Pattern of the latest stop of each crawl."""
        return self.tag + "stop:*"

    def kept(self) -> Sequence[str]:
        """Patterns of what every partition has, and keeps when the frontier is moved."""
        return [self.stops(), self.tag + "occasion:*", self.tag + "views:*"]

    def kept_of_cluster(self) -> Sequence[str]:
        """Patterns of what is the cluster's, and is kept when the frontier is moved."""
        schedules = [self.schedules(), self.schedule("*"), self.tag + "skipping"]
        proxies = [self.proxy_health(), self.proxy_spent("*"), self.tag + "proxies:rest"]
        rules = [self.rule_changes(), self.rule_authors()]
        return [*schedules, *proxies, *rules, self.stats("*", "*")]

    def chunk_lists(self) -> str:
        """Pattern of the lists of chunks that bands have."""
        return self.tag + "bc:*:*/*:*"

    @property
    def all_of_it(self) -> str:
        """Pattern of all keys of a partition."""
        return self.tag + "*"

    def refused(self) -> str:
        """What was refused and is still to be told, by topic UUID and Kafka partition."""
        return self.tag + "refused"

    def again(self) -> str:
        """Seeds to be read again after a late stop, by topic UUID and Kafka partition."""
        return self.tag + "again"

    def attempts(self) -> str:
        """Where partitions were assigned last, and records that are judged with care."""
        return self.tag + "attempts"

    def overflow(self) -> str:
        """Next offset to recall of what was spilled, by topic UUID and Kafka partition."""
        return self.tag + "overflow"

    def lost(self) -> str:
        """What is left to be restored after a loss of Redis."""
        return self.tag + "lost"

    def table(self) -> str:
        """The throttle table as it was copied."""
        return self.tag + "table"

    def proxies(self) -> str:
        """The proxy pools as they were copied."""
        return self.tag + "proxies"

    def proxy_health(self) -> str:
        """What is known of each proxy."""
        return self.tag + "proxies:health"

    def proxy_spent(self, day: str) -> str:
        """What pools have used up on a day, counted from the epoch in UTC."""
        return f"{self.tag}proxies:spent:{day}"

    def unserved(self, pool: str, domain: str) -> str:
        """Since when no proxy of a pool has come through to a domain, epoch seconds."""
        return f"{self.tag}unserved:{pool}:{domain}"

    def tls(self, pool: str, domain: str) -> str:
        """The TLS profile that a pool's pages have on a domain; without it, the pool's first."""
        return f"{self.tag}tls:{pool}:{domain}"

    def names(self) -> str:
        """Crawls that are remembered, by name."""
        return self.tag + "names"

    def shelf(self) -> str:
        """What is known of the shelf, and the last name of a chunk."""
        return self.tag + "shelf"

    def shelved_chunk(self, name: str, id_: str) -> str:
        """A chunk on a server of its own, which frontiers of several names may share."""
        return f"{self.tag}chunk:{name}:{id_}"

    def schedules(self) -> str:
        """Schedules by when they are looked at next."""
        return self.tag + "schedules"

    def schedule(self, field: str) -> str:
        """One schedule, and how far it has come; see ``schedule_field``."""
        return f"{self.tag}schedule:{field}"

    def occasion(self, occasion: str, part: int) -> str:
        """Which records of an occasion have taken effect, as bits."""
        return f"{self.tag}occasion:{occasion}:{part}"

    @staticmethod
    def schedule_field(appid: str, name: str) -> str:
        """A schedule's name as one field: that of its application, encoded, and its own."""
        return f"{encode_id(appid)}:{name}"

    def actions(self) -> str:
        """Stream of requests that wait for the answer of a redis-monitor."""
        return self.tag + "actions"

    def outbox(self) -> str:
        """Stream of records that the frontier owes the world."""
        return self.tag + "outbox"

    def workers(self) -> str:
        """Workers by their deadline."""
        return self.tag + "workers"

    def wake_channel(self, worker: str) -> str:
        """Channel on which a sleeping worker hears that there is work."""
        return f"{self.tag}wake:{worker}"

    def robots(self, origin: str) -> str:
        """The robots.txt of one ``scheme://host:port``, shared by the cluster."""
        return f"{self.tag}robots:{origin}"

    def process(self, name: str) -> str:
        """Heartbeat of one process."""
        return f"{self.tag}process:{name}"

    def wishes(self, name: str) -> str:
        """What people ask of one process."""
        return f"{self.tag}wishes:{name}"

    def processes(self) -> str:
        """Index of the processes that send heartbeats, by time of the last one."""
        return self.tag + "processes"

    def rule_changes(self) -> str:
        """The latest changes of the throttle rules, by time."""
        return self.tag + "rule-changes"

    def rule_authors(self) -> str:
        """Who made the latest versions of the throttle rules, by time."""
        return self.tag + "rule-authors"

    def stats(self, family: str, bucket: str) -> str:
        """Counters of one family in one time bucket."""
        return f"{self.tag}stats:{family}:{bucket}"


SLOTS = 16384
"""Hash slots of a Redis Cluster."""
MOST_PARTITIONS = 256


@dataclass(frozen=True, slots=True)
class Partitions:
    """Which partition of a frontier has the data of a domain, and the registry of a crawl.

    The number never changes for a namespace: machines are added by moving slots between them. The
    tags of N partitions lie in N equal, contiguous ranges of slots, in order, so that nodes with
    equal ranges have equal shares. ValueError: ``number`` is not within 1 and 256.
    """

    namespace: str = "cs"
    number: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= MOST_PARTITIONS:
            raise ValueError(f"a frontier has 1 to {MOST_PARTITIONS} partitions")

    def of(self, domain: str) -> int:
        """The partition of a domain key, and of all sites in that domain."""
        return crc32(domain.encode()) % self.number

    def home(self, crawl: CrawlKey) -> int:
        """The partition that knows which run of a crawl is open."""
        return self.home_of(FrontierKeys.crawl_field(crawl).encode())

    def home_of(self, name: bytes) -> int:
        """The same by the name of a crawl, as ``crawl_field`` makes it."""
        return crc32(b"crawl:" + name) % self.number

    def keys(self, partition: int) -> FrontierKeys:
        """The keys of one partition; IndexError: there is none of this number."""
        if not 0 <= partition < self.number:
            raise IndexError(f"partition {partition} of {self.number}")
        if self.number == 1:
            return self.root
        return FrontierKeys(self.namespace, _suffix(self.namespace, partition, self.number))

    @property
    def root(self) -> FrontierKeys:
        """What processes look for first: a frontier of one partition, or the layout of several."""
        return FrontierKeys(self.namespace)


@lru_cache(maxsize=4 * MOST_PARTITIONS)
def _suffix(namespace: str, partition: int, number: int) -> str:
    """The first whose slot lies in the share of the partition; some ``number`` are tried."""
    share = range(partition * SLOTS // number, (partition + 1) * SLOTS // number)
    suffixes = (f"{partition}.{tried}" for tried in count())
    return next(s for s in suffixes if crc_hqx(f"{namespace}{s}".encode(), 0) % SLOTS in share)


@dataclass(frozen=True, slots=True)
class Topics:
    """Kafka topic names under one prefix."""

    prefix: str = "demo"
    incoming_name: str | None = None
    """Overrides ``<prefix>.incoming`` (the predecessor's KAFKA_INCOMING_TOPIC)."""

    @property
    def incoming(self) -> str:
        """Requests of all kinds, from clients."""
        return self.incoming_name or f"{self.prefix}.incoming"

    @property
    def crawled(self) -> str:
        """Every crawl result."""
        return f"{self.prefix}.crawled_{_FIREHOSE}"

    @property
    def outbound(self) -> str:
        """Every reply to an action, stats or zookeeper request."""
        return f"{self.prefix}.outbound_{_FIREHOSE}"

    @property
    def events(self) -> str:
        """Beginnings and endings of crawls, failed pages."""
        return f"{self.prefix}.events"

    @property
    def rejected(self) -> str:
        """What could not take effect, with its reason."""
        return f"{self.prefix}.rejected"

    @property
    def undelivered(self) -> str:
        """What a pipeline could not deliver, with its reason."""
        return f"{self.prefix}.undelivered"

    @property
    def runs(self) -> str:
        """The latest state of every run, for a Redis that was lost; compacted."""
        return f"{self.prefix}.runs"

    @property
    def schedules(self) -> str:
        """Schedules and how far each has come, for a Redis that was lost; compacted."""
        return f"{self.prefix}.schedules"

    @property
    def pipelines(self) -> str:
        """How far pipelines are whose sink is a topic; compacted, made with the first of them."""
        return f"{self.prefix}.pipelines"

    @property
    def overflow(self) -> str:
        """Links that wait for room in Redis; our own, no client reads or writes it."""
        return f"{self.prefix}.overflow"

    @property
    def links(self) -> str:
        """Links to other partitions of the frontier, if there are several; our own, as above."""
        return f"{self.prefix}.links"

    @staticmethod
    def run_key(mark: RunMark) -> bytes:
        """What `runs` is compacted by: how a run began, how it ended, a crawl's stop and pause."""
        whole = {STOP: STOP, PAUSE: PAUSE, RESUME: PAUSE, RUNNING: f"{mark.run}"}
        which = whole.get(mark.state, f"{mark.run}:ended")
        return f"{FrontierKeys.crawl_field(mark.crawl)}:{which}".encode()

    HOME_KEYS = b"home:"
    """What the keys of records for homes of crawls begin with, on the topic `runs`."""

    @classmethod
    def home_key(cls, home: int, mark: HomeMark) -> bytes:
        """The key of what a home is to be told: it is only ever repeated, never replaced."""
        crawl = FrontierKeys.crawl_field(mark.crawl) if mark.crawl else ""
        which = f"{mark.kind}:{mark.redis_epoch}:{mark.generation}:{mark.run}:{crawl}"
        return cls.HOME_KEYS + f"{home}:{which}".encode()

    @staticmethod
    def schedule_key(appid: str, name: str, *, is_fired: bool = False) -> bytes:
        """What `schedules` is compacted by: a schedule, and apart from it how far it has come."""
        field = FrontierKeys.schedule_field(appid, name)
        return (f"{field}:fired" if is_fired else field).encode()

    def crawled_for(self, appid: str) -> str | None:
        """Results of one application; None where the id cannot be in a topic's name."""
        return f"{self.prefix}.crawled_{appid}" if _has_topic(appid) else None

    def outbound_for(self, appid: str) -> str | None:
        """Replies to one application; None where the id cannot be in a topic's name."""
        return f"{self.prefix}.outbound_{appid}" if _has_topic(appid) else None

    def all(self) -> tuple[str, ...]:
        """The topics that exist before the first record."""
        return (
            *(self.incoming, self.crawled, self.outbound, self.events, self.rejected),
            *(self.runs, self.schedules, self.overflow, self.undelivered),
        )
