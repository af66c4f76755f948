"""What is said to the frontier, and what it answers.

Lists travel, not objects: a page's links are a few :class:`Links` groups, whatever their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from crawlstream.model.crawl import CrawlKey, FiringKey, Hold, Profile
from crawlstream.model.partitions.messages import Question
from crawlstream.model.recurring.schedule import (
    Do,
    Occasion,
    Schedule,
    ScheduleEvent,
    ScheduleMark,
)
from crawlstream.model.runs import Fate
from crawlstream.model.throttle import Heard


class Outcome(StrEnum):
    """How a held entry came to its end."""

    DONE = "done"
    """A result was acknowledged by Kafka, whatever its HTTP status."""
    FAILED = "failed"
    """No result will come; a ``page_failed`` event was acknowledged by Kafka."""
    REDIRECTED = "redirected"
    """Its target was admitted in its place, or had been admitted before."""


@dataclass(slots=True, kw_only=True)
class Links:
    """Requests of one domain, priority and spider on their way into the frontier.

    ``fingerprints`` and ``entries`` run in parallel. No fingerprint may stand in it twice.
    """

    domain: str
    priority: int
    spiderid: str | None = None
    """Another spider type that shall fetch them; None for the crawl's own."""
    counts: bool = True
    """Whether they use up ``domain_max_pages`` and ``max_pages`` (redirect targets do not)."""
    fingerprints: list[str] = field(default_factory=list)
    """Signed 64-bit numbers as decimal text; see ``model.url.fingerprint``. The target of a seed's
    redirect has two, separated by a blank: that of the entry, and that of its page."""
    entries: Sequence[bytes] = field(default_factory=list)
    """As ``wire.stored.encode_entry`` makes them, perhaps only when they are looked at."""
    site: str | None = None
    """What they are counted under where a rule parts the domain; the frontier finds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """The end of a hold: its children and its completion, in one step.

    The children inherit the profile of the page, and with it its page limits.
    """

    token: str
    outcome: Outcome
    reason: str = ""
    """Status class of a done page (``2xx``) or the reason of a failure (``dns``)."""
    links: Sequence[Links] = ()
    filtered: Mapping[str, int] = field(default_factory=dict)
    """Links that were dropped before they could enter, counted by reason."""
    sent_ms: int | None = None
    """Its request was sent so long after the granting call; None if that is known, or none was."""
    body_bytes: int = 0
    spilled: Mapping[int, int] = field(default_factory=dict)
    """Children that are in Kafka already: how many, by the ``chunk`` of each Spill."""
    need: Mapping[int, int] = field(default_factory=dict)
    """Children that are in Kafka for other partitions: the offset behind the last of their records,
    or a later one, by partition. The run is not over before these have read so far."""


@dataclass(frozen=True, slots=True)
class Spill:
    """Children of one page, or some of them, as a record on their way to ``<prefix>.overflow``."""

    chunk: int
    """Names the record below its page."""
    links: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Back into the frontier because of a download outcome: one retry used, priority lowered."""

    token: str
    delay_ms: int = 0
    sent_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Back to the front of its band, unmarked.

    ``sent_ms`` None means that nothing went out; the allowance is spent all the same.
    ``delay_ms`` keeps the entry back for a while. ``robots`` says that the grant bought the
    robots.txt of its host, which earns a domain never visited before one more grant at once;
    ``crawl_delay_ms`` is what that file asks to keep between two requests (0: nothing).
    """

    token: str
    delay_ms: int = 0
    sent_ms: int | None = None
    robots: bool = False
    crawl_delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The request of a hold went out ``after_ms`` after its granting call was issued."""

    token: str
    after_ms: int
    received: bool = False
    """Its response has arrived too: it no longer counts against the domain's concurrency."""
    heard: Heard | None = None
    """What the site did, told together with ``received``; None if that tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeResult:
    """What became of one exchange."""

    holds: Sequence[Hold]
    stale: frozenset[str]
    """Tokens of this call that Redis does not know for this worker (any more)."""
    redis_epoch: int
    """Grows by one whenever Redis was restarted."""
    next_due_ms: int | None
    """How long nothing more will be due unless something is put; None: nothing waits at all."""
    rules_known: bool
    """False: no throttle rules have reached Redis yet, so nothing is granted."""
    refused: frozenset[str] = frozenset()
    """Tokens of settles that were not done, as Redis has no room for their children: spill these,
    then settle again."""
    is_crowded: bool | None = None
    """Whether children should be spilled at once; None: nobody looked."""
    unconfirmed: Sequence[Question] = ()
    """What homes of crawls are to be asked before there are leases; with one partition nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A crawl request as the frontier admits it: it always enters, and marks its fingerprint."""

    offset: int
    timestamp_ms: int
    """The Kafka record's own."""
    crawl: CrawlKey
    domain: str
    priority: int
    fingerprint: str
    entry: bytes
    """As ``wire.stored.encode_entry`` makes it; the frontier adds the profile's number."""
    profile: Profile
    expires: int = 0
    """Epoch seconds; 0: never."""
    not_before: float = 0
    """Epoch seconds; 0: at once."""
    occasion: Occasion | None = None
    """The firing that it belongs to: what names it again changes nothing."""
    remember: int | None = None
    """Seconds for which dedupe outlives a finished run; None: what was said before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request that redis-monitor answers; what it does to a crawl has taken effect before that.

    ``name`` is ``stop``, ``pause``, ``resume``, ``reprioritize``, ``info``, ``stats`` or
    ``zookeeper``; ``request`` is the validated JSON.
    """

    offset: int
    timestamp_ms: int
    name: str
    request: bytes
    crawl: CrawlKey | None = None
    """The crawl to stop, pause, resume or reprioritize; None: nothing is done to any."""
    priority: int | None = None
    """Where ``reprioritize`` puts the best seed of the run."""
    until: int = 0
    """When a ``pause`` ends by itself, in epoch seconds; 0: it does not."""
    appid: str = ""
    occasion: Occasion | None = None
    """The firing that it belongs to, of a schedule of the application; as of a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """What is done to a schedule; redis-monitor answers what came of it."""

    offset: int
    timestamp_ms: int
    appid: str
    name: str
    do: Do
    request: bytes
    """As of a command."""
    schedule: Schedule | None = None
    """What is set."""
    most: int
    """How many schedules there may be; one more is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A seed that took effect in a Redis that was lost, and is not to do so again."""

    offset: int
    timestamp_ms: int
    appid: str
    occasion: Occasion


Effect = Seed | Command | ScheduleChange | Seen
"""What a record of ``incoming`` does to the frontier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeBatch:
    """Consecutive records of one Kafka partition: offsets from ``start`` up to ``next``.

    Rejected records are simply not among ``records``; ``next`` covers them.
    """

    topic_id: str
    """UUID of the topic, so that a topic made anew is not taken for the old one."""
    kafka_partition: int
    start: int
    next: int
    records: Sequence[Effect]
    leader_epoch: int = -1
    """Of Kafka's leader when the last of them, or one behind it, was written; -1: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeResult:
    """What became of a batch."""

    applied: int
    """Records that took effect in this call (0 for a repetition)."""
    runs: Mapping[int, int] = field(default_factory=dict)
    """Run number by offset, for the seeds that took effect."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Reason by offset, for the seeds that were not admitted (``domain_max_pages`` …)."""
    repeated: int = 0
    """Records that named an occasion that another had named before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Where a Kafka partition begins that the frontier has no position of, or an old one."""

    topic_id: str
    kafka_partition: int
    offset: int
    """Where it begins if the frontier knows no position at all."""
    until: int | None = None
    """The records before this offset had taken effect in a Redis that was lost; None: none was."""
    behind: Mapping[int, int] = field(default_factory=dict)
    """The same of all partitions of the topic that are to be read again, whoever will do it."""
    floor: int = 0
    """The highest run number that was ever given."""
    fates: Sequence[Fate] = ()
    """What was over stays over; runs that were under way go on, or begin again under their numbers,
    marked as recovered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAction:
    """A request waiting for its answer, as redis-monitor reads it."""

    id: str
    name: str
    request: bytes
    purged: int | None = None
    """Entries that a stop took out of the frontier; None where no such crawl was under way."""
    run: int | None = None
    """The run that the action took effect on; None where no such crawl was under way."""
    attempts: int = 1
    outcome: str = ""
    """What came of a change of a schedule: ``set``, ``replaced``, ``removed``, ``paused``,
    ``resumed``, ``fires``, ``known``, ``unknown`` or ``too_many``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedSchedule:
    """What the frontier owes the world about a schedule, as redis-monitor reads it."""

    id: str
    kind: str
    """``schedule_set``, ``schedule_removed``, ``schedule_fired`` or ``schedule_skipped``."""
    mark: ScheduleMark
    """What Kafka is to remember."""
    event: ScheduleEvent | None = None
    """What is told of a firing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRecord:
    """A record that the frontier owes the world, as redis-monitor reads it from the outbox."""

    id: str
    kind: str
    """``crawl_started``, ``crawl_finished``, ``crawl_stopped``, ``crawl_expired``, ``page_failed``,
    ``spill_lost``, ``accepted``."""
    crawl: CrawlKey
    run: int
    server_time: int
    counters: Mapping[str, int] = field(default_factory=dict)
    """admitted, done, failed, redirected, stopped, expired, bytes; of endings only."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``done``, ``failed`` and ``filtered`` by reason; of endings only."""
    started_at: float = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    """Next offset to apply by ``<topic UUID>:<partition>``, as the run began or ended."""
    generation: int | None = None
    """Of the crawl, as its home ended the run; None: the frontier has one partition."""
    redis_epoch: int = 0
    """Of the home at that moment."""
    firing: FiringKey | None = None
    """The latest firing that has fed the run."""
    seen: Mapping[int, bytes] = field(default_factory=dict)
    """Bits of its records that took effect, by part; of endings only."""
    remember: int | None = None
    """What seeds of earlier runs had said, as the run began; see Seed."""
    hold: Hold | None = None
    """The page that failed, for ``page_failed``; None where its entry cannot be read."""
    entry: bytes = b""
    """That entry, as the frontier kept it."""
    spiderid: str = ""
    """The spider that the page was for; empty: its crawl's."""
    spill: str = ""
    """The record of ``<prefix>.overflow`` that was lost, or the chunk, for ``shelf_lost``."""
    links: int = 0
    """How many pages it held."""
    domain: str = ""
    """Whose they were, for ``shelf_lost``."""
    reason: str = ""
    uuid: str | None = None
