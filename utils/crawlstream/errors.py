"""Everything that can go wrong, as a tree; each leaf names what is done about it.

CrawlstreamError
├── InvalidRequest        reject: publish to ``<prefix>.rejected``, move on
├── InvalidUrl            reject at intake, filter when discovered
├── BadTable              keep the last good table, raise an alarm
├── Unavailable           back off and try again in place; never drop, never skip
│   ├── RedisUnavailable
│   │   ├── NoFrontier       Redis was emptied: kafka-monitor founds it anew
│   │   └── NotRestored      a home went back: restore it from ``<prefix>.runs``, then repeat
│   ├── KafkaUnavailable
│   │   ├── NotAcknowledged  (bus.records) repeat exactly the records that it names
│   │   ├── NotReached       (bus.connect)
│   │   ├── NoTopic          (bus.connect) Kafka answers, but the topic was deleted
│   │   └── KafkaRefused     at the start of a process exit 2; later as above, until it is mended
│   ├── ShelfUnavailable
│   ├── StoreUnavailable      (store.store)
│   ├── GivenUp               (crawling.publish.publisher) leave the page open: it goes back
│   └── ZooKeeperUnavailable
├── RecordTooLarge        (bus.records) cut it or reject it; to repeat it is useless
├── NotAResult            (wire.delivered) undelivered: publish it, whole, and move on
├── FrontierFull          pause intake, try again in place
├── PositionGap           seek back to the frontier's position, read again
├── Conflict              somebody else wrote first: read again, then retry
├── Refused               (rest_service.http.envelope) answer with its status and sentence
├── RoundFailed           (crawlstream_chaos.facts.facts) end the command with exit 1
├── ConfigError           exit 2 with one sentence
│   └── FrontierMoved        the same: it was moved to other partitions
└── SetupError            exit 1 with one sentence and its remedy
    └── NotReady             (local.readiness) the same; what runs goes on starting

"Throttled", "empty" and "stale" are values, not errors.
An error raised without a message speaks its docstring.
"""

from __future__ import annotations


class CrawlstreamError(Exception):
    """Something went wrong in crawlstream."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


class InvalidRequest(CrawlstreamError):
    """The record is not a request that crawlstream understands.

    ``reason`` is a short code for programs, ``problems`` are sentences for people.
    """

    def __init__(self, reason: str, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.reason = reason
        self.problems = problems


class InvalidUrl(CrawlstreamError):
    """The URL cannot be crawled."""


class BadTable(CrawlstreamError):
    """A table in ZooKeeper cannot be read; the last good one stays in force."""


class Unavailable(CrawlstreamError):
    """A service does not answer; the work waits for it."""


class RedisUnavailable(Unavailable):
    """Redis does not answer; the work waits for it."""


PASSING_REFUSALS = ("BUSY ", "MISCONF ", "NOGROUP ", "NOREPLICAS ", "UNBLOCKED ")
"""Beginnings of what Redis refuses for a while, where redis-py has no class of its own."""


class NoFrontier(RedisUnavailable):
    """Redis holds no frontier; the work waits until kafka-monitor has restored it."""


class NotRestored(RedisUnavailable):
    """A partition has to be told first what it may have forgotten of its crawls.

    ``redis_epoch`` is the epoch of Redis in which it has to be.
    """

    def __init__(self, redis_epoch: int) -> None:
        super().__init__(f"the registry is not restored yet in epoch {redis_epoch} of Redis")
        self.redis_epoch = redis_epoch


class OutdatedStamp(Unavailable):
    """The run of a seed has expired since its home was asked about it: ask again."""

    def __init__(self) -> None:
        super().__init__("a run has expired while its seeds were read")


class KafkaUnavailable(Unavailable):
    """Kafka does not answer; the work waits for it."""


class KafkaRefused(KafkaUnavailable):
    """Kafka refuses the user or a right, which only a person can mend."""


class ZooKeeperUnavailable(Unavailable):
    """ZooKeeper does not answer; the last good rules stay in force."""


class ShelfUnavailable(Unavailable):
    """The server that keeps the middle of long queues does not answer; what is there waits."""


class FrontierFull(CrawlstreamError):
    """Redis is nearly at its memory limit; seeds wait until the crawl has drained some."""


class PositionGap(CrawlstreamError):
    """Records are missing before this batch.

    ``position`` is the offset from which the partition must be read again.
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"records from offset {position} on have not been applied yet")
        self.position = position


class Conflict(CrawlstreamError):
    """The value was changed by somebody else in the meantime."""


class ConfigError(CrawlstreamError):
    """A setting is wrong; the process cannot start with it."""


class FrontierMoved(ConfigError):
    """The frontier was moved away from this Redis."""

    def __init__(self, to: str) -> None:
        super().__init__(
            f"the frontier in this Redis was moved to {to} (./crawlstream repartition): configure"
            " that one for all processes"
        )


class SetupError(CrawlstreamError):
    """Something that the command needs is missing on this machine."""
