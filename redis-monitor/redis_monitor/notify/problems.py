"""Problems of the cluster: looked for periodically, reported when they begin and end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from redis.exceptions import RedisError

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets
from crawlstream.errors import CrawlstreamError
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import ALIVE_S, living_in
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.problem import KAFKA_DOWN, REDIS_DOWN, problems_of
from redis_monitor.notify.notice import Notice
from redis_monitor.notify.sentences import name_of

_LOOK_EVERY_S = 15.0
_REJECTED_S = 600.0
"""Records that are rejected one after the other are one problem."""

Change = tuple[str, str, str]
"""Event, code of the problem, sentence."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Cluster to look at, and the process that looks."""

    frontier: Frontiers
    kafka: Kafka
    rejected: str
    """Topic of what was rejected."""
    process: Process
    name: str
    """Prefix of the topics."""


@dataclass(slots=True)
class _Sight:
    """Problem: since when it is there or gone, and whether it was reported."""

    text: str
    changed_at: float
    is_there: bool = True
    is_told: bool = False


class ProblemLog:
    """Problems over time: returns the changes that are due for a report."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._known: dict[str, _Sight] = {}

    def note(self, there: Mapping[str, str], now: float) -> list[Change]:
        """Take a look's problems, code -> sentence; ``(event, code, sentence)`` of each change.

        A problem that comes or goes for less than ``after_s`` does not count as a change.
        """
        for code, text in there.items():
            sight = self._known.setdefault(code, _Sight(text, now))
            sight.text = text
        changes = []
        for code, sight in list(self._known.items()):
            if (code in there) != sight.is_there:
                sight.is_there, sight.changed_at = code in there, now
            if now - sight.changed_at < self._after_s:
                continue
            if sight.is_there and not sight.is_told:
                sight.is_told = True
                changes.append(("problem_began", code, sight.text))
            if not sight.is_there:
                del self._known[code]
                if sight.is_told:
                    changes.append(("problem_ended", code, f"No longer: {sight.text}"))
        return changes


@dataclass(slots=True)
class _PendingChange:
    """Change that the leader has to report; since when this leader has it."""

    change: Change
    leader: str
    since: float


class PendingChanges:
    """Changes until they are reported: by this process, or by a leader that has outlived them.

    A process counts as alive until its heartbeat has expired, so the leader may be dead: its
    changes are kept until it has sent another heartbeat.
    """

    def __init__(self, mine: str) -> None:
        self._mine = mine
        self._owed: list[_PendingChange] = []

    def add(self, changes: Sequence[Change], leader: str, now: float) -> None:
        """Take note of changes seen under a leader."""
        self._owed += [_PendingChange(change, leader, now) for change in changes]

    def due(self, leader: str, now: float) -> Sequence[Change]:
        """Return the changes that this process has to report now, in order; forget the leader's."""
        owed, self._owed = self._owed, []
        if leader == self._mine:
            return [one.change for one in owed]
        for one in owed:
            if one.leader != leader:
                one.leader, one.since = leader, now
        self._owed = [one for one in owed if now - one.since <= ALIVE_S]
        return []


class ProblemWatch:
    """Looks at the cluster, and notifies its channels of changes."""

    def __init__(
        self, cluster: Cluster, tell: Callable[[Notice], object], *, after_s: float
    ) -> None:
        self._cluster = cluster
        self._tell = tell
        self._log = ProblemLog(after_s)
        self._every_s = min(_LOOK_EVERY_S, max(after_s / 3, 0.1))
        self._leader = cluster.process.name
        self._owed = PendingChanges(cluster.process.name)
        self._rejected_end: int | None = None
        self._rejected_count, self._rejected_at = 0, 0.0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                there = await self._look()
            except Exception as error:
                log.exception("problems", error=repr(error))
                there = None
            if there is not None:
                now = time.monotonic()
                self._owed.add(self._log.note(there, now), self._leader, now)
                for change in self._owed.due(self._leader, now):
                    self._say(*change)
            await asyncio.sleep(self._every_s)

    def _say(self, event: str, code: str, text: str) -> None:
        at, cluster = int(time.time()), self._cluster.name
        name = name_of(cluster, event, code, str(at))
        self._tell(Notice(id=name, event=event, at=at, cluster=cluster, text=text, problem=code))

    async def _look(self) -> dict[str, str]:
        found = await self._of_kafka()
        try:
            processes = await living_in(self._cluster.frontier.heartbeats)
            state = await self._cluster.frontier.queries.state()
        except (CrawlstreamError, RedisError, OSError, TimeoutError):
            # The leader is unknown, so every process reports.
            self._leader = self._cluster.process.name
            return found | {REDIS_DOWN.code: REDIS_DOWN.text}
        mine = self._cluster.process.name
        names = [one.name for one in processes if one.kind == "redis-monitor"]
        self._leader = min(names, default=mine)
        return found | {
            one.code: f"{one.text} Start it: `{one.command}`" if one.command else one.text
            for one in problems_of(state, processes)
            if one.is_notified
        }

    async def _of_kafka(self) -> dict[str, str]:
        """Return whether Kafka answers, and what was rejected since the last look."""
        try:
            ends = await end_offsets(self._cluster.kafka, self._cluster.rejected)
        except (CrawlstreamError, OSError):
            return {KAFKA_DOWN.code: KAFKA_DOWN.text}
        end, now = sum(ends.values()), time.monotonic()
        before, self._rejected_end = self._rejected_end, end
        if now - self._rejected_at > _REJECTED_S:
            self._rejected_count = 0
        if before is not None and end > before:
            self._rejected_count += end - before
            self._rejected_at = now
        if not self._rejected_count:
            return {}
        count = self._rejected_count
        named = "request was" if count == 1 else "requests were"
        return {"rejected": f"{count} {named} rejected: `crawlstream rejected list` says why."}
