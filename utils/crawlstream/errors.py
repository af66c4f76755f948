"""All errors as a tree; each leaf names the reaction to it.

CrawlstreamError
├── InvalidRequest        reject: publish to ``<prefix>.rejected`` and continue
├── InvalidUrl            reject at intake, filter when discovered
├── BadTable              keep the last good table, raise an alarm
├── Unavailable           back off and retry the same work; never drop, never skip
│   ├── RedisUnavailable
│   │   ├── NoFrontier       Redis was emptied: kafka-monitor creates the frontier again
│   │   └── NotRestored      a coordinator lost data: restore it from ``<prefix>.runs``, repeat
│   ├── KafkaUnavailable
│   │   ├── NotAcknowledged  (bus.records) publish exactly the records that it names again
│   │   ├── NotReached       (bus.connect)
│   │   ├── NoTopic          (bus.connect) Kafka answers, but the topic was deleted
│   │   └── KafkaRefused     at the start of a process exit 2; later as above, until it is mended
│   ├── ShelfUnavailable
│   ├── StoreUnavailable      (store.store)
│   ├── GivenUp               (crawling.publish.publisher) do not complete the page: release it
│   └── ZooKeeperUnavailable
├── RecordTooLarge        (bus.records) cut it or reject it; a retry is useless
├── NotAResult            (wire.delivered) undelivered: publish it whole, and continue
├── FrontierFull          pause intake, then retry the same work
├── PositionGap           seek back to the frontier's position and read again
├── Conflict              another client wrote first: read again, then retry
├── Refused               (rest_service.http.envelope) answer with its status and sentence
├── RoundFailed           (crawlstream_chaos.facts.facts) end the command with exit 1
├── ConfigError           exit 2 with one sentence
│   ├── FrontierMoved        exit 2: the frontier was moved to other partitions
│   └── MissingExtra         exit 2: install it
└── SetupError            exit 1 with one sentence and its remedy
    └── NotReady             (local.readiness) exit 1; running processes continue to start

"Throttled", "empty" and "stale" are values, not errors.
An error raised without a message uses its docstring as the message.
"""

from __future__ import annotations

from crawlstream.called import COMMAND


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
"""Prefixes of temporary refusals of Redis for which redis-py has no class."""


class NoFrontier(RedisUnavailable):
    """Redis holds no frontier; the work waits until kafka-monitor has restored it."""


class NotRestored(RedisUnavailable):
    """A partition must first be restored, because it may have lost data of its crawls.

    ``redis_epoch`` is the epoch of Redis that must be restored.
    """

    def __init__(self, redis_epoch: int) -> None:
        super().__init__(f"the registry is not restored yet in epoch {redis_epoch} of Redis")
        self.redis_epoch = redis_epoch


class OutdatedStamp(Unavailable):
    """The run of a seed has expired since its coordinator was queried: query it again."""

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
    """The value was changed by another client in the meantime."""


class ConfigError(CrawlstreamError):
    """A setting is wrong; the process cannot start with it."""


class FrontierMoved(ConfigError):
    """The frontier was moved away from this Redis."""

    def __init__(self, to: str) -> None:
        super().__init__(
            f"the frontier in this Redis was moved to {to} ({COMMAND} repartition): configure"
            " that one for all processes"
        )


class MissingExtra(ConfigError):
    """A setting or command needs a package of an optional set, and it is not installed."""

    def __init__(self, what: str, package: str | None, extra: str) -> None:
        super().__init__(
            f"{what} needs {package or 'a package'} of the extra [{extra}]: install it with"
            f" `./crawlstream install {extra}` in a checkout, or elsewhere with `pip install"
            f" 'crawlstream[{extra}]'`"
        )


class SetupError(CrawlstreamError):
    """Something that the command needs is missing on this machine."""
