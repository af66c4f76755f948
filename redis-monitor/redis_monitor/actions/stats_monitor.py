"""stats: counters of the processes, living processes, backlogs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from crawlstream.model.effects import PendingAction
from crawlstream.model.process import Process
from crawlstream.model.request import StatsRequest
from crawlstream.plugins import Context, Reply
from crawlstream.stats.domains import OTHERS, read_domains
from crawlstream.stats.heartbeat import living
from crawlstream.wire import replies, requests
from crawlstream.wire.replies import Section
from redis_monitor.actions import stats_reply
from redis_monitor.actions.counter_history import CounterHistory


class StatsMonitor:
    """Answers the eight kinds of ``stats``."""

    name = "stats"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._history = CounterHistory(context.redis, context.keys)
        self._kinds: Mapping[str, Callable[[], Awaitable[Section]]] = {
            "kafka-monitor": lambda: self._monitor("kafka-monitor"),
            "redis-monitor": lambda: self._monitor("redis-monitor"),
            "rest": lambda: self._monitor("rest"),
            "spider": self._spider,
            "machine": self._machine,
            "queue": self._queue,
            "crawler": self._crawler,
            "all": self._all,
        }

    async def answer(self, action: PendingAction) -> Reply:
        """Read the counters that were asked for; this process' own are up to date."""
        request = cast(StatsRequest, requests.decode(action.request))
        await self._context.tally.flush()
        section = await self._kinds[request.stats]()
        body = replies.stats(request, section, server_time=int(time.time()))
        return Reply(request.appid, body)

    async def _monitor(self, kind: str) -> Section:
        return stats_reply.monitor(await self._history.read(kind), _nodes(await self._living(kind)))

    async def _spider(self) -> Section:
        running = Counter(process.spider for process in await self._living("crawler"))
        domains = await read_domains(self._context.redis, self._context.keys)
        return stats_reply.spider(await self._history.read("spider"), running, domains)

    async def _machine(self) -> Section:
        return stats_reply.machine(await self._history.read("machine"))

    async def _queue(self) -> Section:
        backlog: dict[str, Counter[str]] = defaultdict(Counter)
        for state in await self._context.frontier.crawls(with_domains=True):
            for domain in state.domains:
                backlog[state.crawl.spiderid][domain.domain] += domain.total
            if state.is_cut:
                listed = sum(domain.total for domain in state.domains)
                backlog[state.crawl.spiderid][OTHERS] += max(state.queued - listed, 0)
        return stats_reply.queue(backlog)

    async def _crawler(self) -> Section:
        return stats_reply.crawler(await self._spider(), await self._machine(), await self._queue())

    async def _all(self) -> Section:
        return stats_reply.everything(
            await self._monitor("kafka-monitor"),
            await self._monitor("redis-monitor"),
            await self._crawler(),
            await self._monitor("rest"),
        )

    async def _living(self, kind: str) -> Sequence[Process]:
        processes = await living(self._context.redis, self._context.keys)
        return [process for process in processes if process.kind == kind]


def _nodes(processes: Sequence[Process]) -> Mapping[str, Sequence[str]]:
    nodes: dict[str, list[str]] = defaultdict(list)
    for process in processes:
        nodes[process.host].append(process.node)
    return nodes
