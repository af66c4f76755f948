"""Requests to the frontier, and its answers.

They contain lists instead of objects: the links of a page are a few :class:`Links` groups, however
many links there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from crawlstream.model.crawl import Budgets, CrawlKey, FiringKey, Lease, Profile
from crawlstream.model.partitions.messages import Question
from crawlstream.model.recurring.schedule import (
    Do,
    Occasion,
    Schedule,
    ScheduleEvent,
    ScheduleMark,
)
from crawlstream.model.run_marks import Fate
from crawlstream.model.throttle_table import SiteReaction
from crawlstream.model.words.price import Price


class Outcome(StrEnum):
    """How a leased entry ended."""

    DONE = "done"
    """Kafka acknowledged a result, with any HTTP status."""
    FAILED = "failed"
    """There will be no result; Kafka acknowledged a ``page_failed`` event."""
    REDIRECTED = "redirected"
    """The redirect's target was admitted instead, or had been admitted before."""
    SKIPPED = "skipped"
    """It was never requested; Kafka acknowledged a ``pages_skipped`` event that lists it."""


FOUND, FOUND_AGAIN, FOUND_EARLY = 2, 3, 4
"""Values of ``Links.linked``; scripts have them instead of true for links that count."""


@dataclass(slots=True, kw_only=True)
class Links:
    """Requests of one domain, priority and spider to be enqueued in the frontier.

    ``fingerprints`` and ``entries`` are parallel lists. Fingerprints must be unique.
    """

    domain: str
    priority: int
    spiderid: str | None = None
    """Spider type that must fetch them; None: the spider type of the crawl."""
    counts: bool = True
    """True if they count against ``domain_max_pages`` and ``max_pages``; redirects do not."""
    linked: int = 0
    """0 without a score; else ``FOUND``, ``FOUND_AGAIN`` if their worker has found them for the
    third time, or ``FOUND_EARLY`` on a promoted page: others may find them at a smaller depth."""
    standing: str = ""
    """In a crawl with a host budget, what ``link_rules.host_budgets`` says of their page."""
    fingerprints: list[str] = field(default_factory=list)
    """Signed 64-bit numbers as decimal text; see ``model.url.fingerprint``. The target of a seed's
    redirect has two, separated by a space: one of the entry and one of its page."""
    entries: Sequence[bytes] = field(default_factory=list)
    """Entries as encoded by ``wire.stored.encode_entry``, possibly only on access."""
    site: str | None = None
    """Rate-limit unit, if rules divide the domain; the frontier determines it."""


UNSENT = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Acknowledge a page: enqueue its links and end its lease, in one step.

    The links inherit the profile of the page, and with it its page limits.
    """

    token: str
    outcome: Outcome
    reason: str = ""
    """Status class of a done page (``2xx``), or reason why it failed (``dns``) or was skipped."""
    links: Sequence[Links] = ()
    filtered: Mapping[str, int] = field(default_factory=dict)
    """Number of links that the worker filtered, by reason."""
    dropped: str | None = None
    """Directive, or ``reserved``, by which the body of its result was not kept."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of links that the waste guard has refused, by the ``counter_of`` their family; 1 for
    a page that is skipped itself."""
    is_reserved: bool = False
    """True if its site reserves it for the purpose of its crawl."""
    sent_ms: int | None = None
    """Milliseconds from the granting call to its request; None: already reported, or not sent;
    ``UNSENT``: the grant was certainly not used, so it does not count."""
    body_bytes: int = 0
    charged: Price | None = None
    """Charge of its site, by the receipt of its response."""
    answered: str | None = None
    """Client that waited for the page, by its ``uuid``, if Kafka has the reply."""
    spilled: Mapping[int, int] = field(default_factory=dict)
    """Number of links that are already in Kafka, by the ``chunk`` of each Spill."""
    need: Mapping[int, int] = field(default_factory=dict)
    """Links in Kafka for other partitions: the offset after their last record, or a later one, by
    partition. The run does not end before these partitions have read up to there."""


@dataclass(frozen=True, slots=True)
class Spill:
    """Record for ``<prefix>.overflow`` with some or all links of a page."""

    chunk: int
    """Number of the record among those of its page."""
    links: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Retry a page after a failed download: count an attempt and lower its priority."""

    token: str
    delay_ms: int = 0
    sent_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Return an entry to the front of its queue without counting an attempt.

    ``sent_ms`` None means that no request was sent; its grant is used up all the same.
    ``delay_ms`` delays the entry. ``robots`` means that the grant was used for the robots.txt of
    the host; a domain that was never visited before then gets one more grant at once.
    ``crawl_delay_ms`` is the time between two requests that the file requests (0: none).
    ``rest_ms``: its site wants no requests for so long, at this time of day. ``priority``: the
    entry goes to the end of the band of this priority instead. ``gate``: that of its site, by the
    address that it has; empty: it has none. ``spiderid``: crawlers of this one fetch it instead.
    """

    token: str
    delay_ms: int = 0
    sent_ms: int | None = None
    robots: bool = False
    crawl_delay_ms: int = 0
    rest_ms: int = 0
    priority: int | None = None
    gate: str | None = None
    spiderid: str | None = None


@dataclass(frozen=True, slots=True)
class SentRequest:
    """Report that the request of a lease was sent ``after_ms`` after its granting call."""

    token: str
    after_ms: int
    received: bool = False
    """The response has arrived: the request no longer counts against the domain's concurrency."""
    heard: SiteReaction | None = None
    """Reaction of the site, reported with ``received``; None if it shows nothing."""
    first_byte_ms: int | None = None
    """Time from its request to the first byte of its answer, or the timeout after a silence, if the
    lease says that the rule of its site is gentle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeResult:
    """Result of one exchange (*sync*)."""

    leases: Sequence[Lease]
    stale: frozenset[str]
    """Tokens of this call for which Redis has no lease of this worker, or no longer."""
    redis_epoch: int
    """Increases by one whenever Redis has restarted."""
    next_due_ms: int | None
    """Milliseconds until the next entry can be ready unless one is enqueued; None: none waits."""
    rules_known: bool
    """False: Redis has no throttle rules yet, so it grants nothing."""
    refused: frozenset[str] = frozenset()
    """Tokens of settles that were refused because Redis has no room for the links: spill the
    links, then settle again."""
    is_crowded: bool | None = None
    """True if links should be spilled at once; None: it was not checked."""
    unconfirmed: Sequence[Question] = ()
    """Questions that coordinators must answer before leasing; empty with one partition."""
    date_ms: int = 0
    """Epoch milliseconds by Redis' clock."""
    spares: Sequence[Lease] = ()
    """Leases without a grant, in the order of their queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """Crawl request for the frontier: it is always admitted, and its fingerprint is recorded."""

    offset: int
    timestamp_ms: int
    """Timestamp of the Kafka record."""
    crawl: CrawlKey
    domain: str
    priority: int
    fingerprint: str
    entry: bytes
    """Entry encoded by ``wire.stored.encode_entry``; the frontier adds the profile's number."""
    profile: Profile
    expires: int = 0
    """Epoch seconds; 0: never."""
    not_before: float = 0
    """Epoch seconds; 0: at once."""
    occasion: Occasion | None = None
    """Occasion of its firing: a second record with the same occasion changes nothing."""
    remember: int | None = None
    """Seconds for which the dedupe set outlives a finished run; None: keep the value set before."""
    budgets: Budgets | None = None
    """Budgets of the crawl; None: keep those set before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Request that redis-monitor answers, after its effect on a crawl.

    ``name`` is ``stop``, ``pause``, ``resume``, ``reprioritize``, ``info``, ``stats`` or
    ``zookeeper``; ``request`` is the validated JSON.
    """

    offset: int
    timestamp_ms: int
    name: str
    request: bytes
    crawl: CrawlKey | None = None
    """Crawl to stop, pause, resume or reprioritize; None: no crawl is changed."""
    priority: int | None = None
    """New priority of the run's best seed, for ``reprioritize``."""
    until: int = 0
    """End of a ``pause`` in epoch seconds; 0: it does not end by itself."""
    appid: str = ""
    occasion: Occasion | None = None
    """Occasion of its firing, of a schedule of the application; as for a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """Change of a schedule; redis-monitor answers with its outcome."""

    offset: int
    timestamp_ms: int
    appid: str
    name: str
    do: Do
    request: bytes
    """Validated JSON, as for a command."""
    schedule: Schedule | None = None
    """Schedule to set."""
    most: int
    """Maximum number of schedules; a further one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSeed:
    """Seed that took effect in a Redis that was lost, and must not take effect again."""

    offset: int
    timestamp_ms: int
    appid: str
    occasion: Occasion


Effect = Seed | Command | ScheduleChange | AppliedSeed
"""Effect of a record of ``incoming`` on the frontier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeBatch:
    """Consecutive records of one Kafka partition: offsets from ``start`` up to ``next``.

    Rejected records are not in ``records``; ``next`` covers them.
    """

    topic_id: str
    """UUID of the topic, to distinguish a recreated topic from the old one."""
    kafka_partition: int
    start: int
    next: int
    records: Sequence[Effect]
    leader_epoch: int = -1
    """Epoch of Kafka's leader that wrote the last record or a later one; -1: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeResult:
    """Result of applying a batch."""

    applied: int
    """Records that took effect in this call (0 for a repetition)."""
    runs: Mapping[int, int] = field(default_factory=dict)
    """Run number by offset, for the seeds that took effect."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Reason by offset (``domain_max_pages`` …) for the seeds that were not admitted."""
    repeated: int = 0
    """Number of records whose occasion an earlier record had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Start of a Kafka partition whose position in the frontier is missing or outdated."""

    topic_id: str
    kafka_partition: int
    offset: int
    """Offset to begin at if the frontier has no position."""
    until: int | None = None
    """Records before this offset took effect in a Redis that was lost; None: no Redis was lost."""
    behind: Mapping[int, int] = field(default_factory=dict)
    """Offset as in ``until``, by partition of the topic to read again, by any kafka-monitor."""
    floor: int = 0
    """Highest run number that was ever assigned."""
    fates: Sequence[Fate] = ()
    """States of runs. Ended runs stay ended; running ones continue, or restart under their numbers
    and are marked as recovered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAction:
    """Request that waits for its answer, as redis-monitor reads it."""

    id: str
    name: str
    request: bytes
    purged: int | None = None
    """Entries that a stop removed from the frontier; None if no such crawl was running."""
    run: int | None = None
    """Run that the action took effect on; None if no such crawl was running."""
    attempts: int = 1
    outcome: str = ""
    """Outcome of a schedule change: ``set``, ``replaced``, ``removed``, ``paused``, ``resumed``,
    ``fires``, ``pending``, ``known``, ``unknown`` or ``too_many``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSchedule:
    """Record about a schedule in the outbox, as redis-monitor reads it."""

    id: str
    kind: str
    """``schedule_set``, ``schedule_removed``, ``schedule_fired`` or ``schedule_skipped``."""
    mark: ScheduleMark
    """State of the schedule to store in Kafka."""
    event: ScheduleEvent | None = None
    """Event of a firing to publish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRecord:
    """Record to publish, as redis-monitor reads it from the outbox."""

    id: str
    kind: str
    """``crawl_started``, ``crawl_finished``, ``crawl_stopped``, ``crawl_expired``, ``page_failed``,
    ``spill_lost``, ``accepted``."""
    crawl: CrawlKey
    run: int
    server_time: int
    counters: Mapping[str, int] = field(default_factory=dict)
    """admitted, done, failed, redirected, skipped, stopped, expired, bytes; of endings only."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``done``, ``failed``, ``skipped``, ``filtered``, ``dropped`` and ``reserved`` by reason,
    ``charged`` by currency in millionths, ``refused`` by family; of endings only."""
    started_at: float = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    """Next offset to apply by ``<topic UUID>:<partition>``, when the run began or ended."""
    generation: int | None = None
    """Generation of the crawl when its coordinator ended the run; None: one partition only."""
    redis_epoch: int = 0
    """Redis epoch of the coordinator at that moment."""
    firing: FiringKey | None = None
    """Latest firing that has fed the run."""
    seen: Mapping[int, bytes] = field(default_factory=dict)
    """Bits of the records of the firing that took effect, by part; of endings only."""
    remember: int | None = None
    """Value that seeds of earlier runs had set when the run began; see Seed."""
    budget: str = ""
    """Budget that ended the run, for ``crawl_expired``; empty: its ``expires``."""
    lease: Lease | None = None
    """Page that failed, for ``page_failed``; None if its entry cannot be read."""
    entry: bytes = b""
    """Entry of that page, as the frontier stored it."""
    spiderid: str = ""
    """Spider type of the page; empty: that of its crawl."""
    spill: str = ""
    """Record of ``<prefix>.overflow`` that was lost, or the chunk, for ``shelf_lost``."""
    links: int = 0
    """Number of pages in it."""
    domain: str = ""
    """Domain of these pages, for ``shelf_lost``."""
    reason: str = ""
    uuid: str | None = None
    unanswered: Sequence[str] = ()
    """Clients that wait for a page without a reply, by ``uuid``; of endings only."""
