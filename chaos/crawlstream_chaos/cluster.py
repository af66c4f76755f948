"""Where faults are injected: a cluster, its servers behind proxies so as to be struck, a site."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import time
from asyncio import Lock
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, Self, TypeVar

from redis.exceptions import RedisError

from crawlstream.boot.settings import load_settings
from crawlstream.boot.variables import environment_without_settings
from crawlstream.errors import CrawlstreamError, SetupError
from crawlstream.model.egress.render import is_lane, lane_of
from crawlstream.model.state import FrontierState
from crawlstream.throttle.edit import DEFAULT, ThrottleEditor
from crawlstream_chaos.facts.facts import FedCrawl, HostRule
from crawlstream_chaos.facts.trace_collector import Collector, collecting
from crawlstream_chaos.keyring import KeyRing
from crawlstream_chaos.laws.traces import SHARE
from crawlstream_chaos.observed import Observed
from crawlstream_chaos.pipelines.described import Reader, describe, readers
from crawlstream_chaos.processes import RunningServer, freeze
from crawlstream_chaos.proxy import FaultyProxy
from crawlstream_chaos.recorder import AccessLogReader, KafkaLogs, RecordingWitness
from crawlstream_chaos.stores.running_opensearch import RunningOpenSearch
from crawlstream_chaos.stores.struck_servers import (
    SEARCH,
    WITHOUT_PROXY,
    addresses,
    advertise,
    on_shelf,
    search_at,
    struck_servers,
)
from crawlstream_chaos.versions.mixed import MixedCluster
from crawlstream_chaos.witness import OUTPUTS
from crawlstream_cli.demo.site_process import served
from crawlstream_cli.demo.truth import FollowRules, expected_pages
from crawlstream_cli.demo.web import ContentKind, Web
from crawlstream_cli.local import servers
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.partitions import redis_names
from crawlstream_cli.local.ports import Ports, free_block
from crawlstream_cli.local.supervisor import MARK, ProcessInfo
from crawlstream_frontier.partitions.frontiers import Frontiers

T = TypeVar("T")

DEPTH = 99
"""Maximum depth of a crawl, deeper than any web used here."""
QUICK = 60
"""Requests a host and second when nothing shall wait any more; no rule is ever above it."""
_EFFECTIVE_MS = 2_000
"""A lowered rule counts for windows that begin so long after it."""
_FIRST_HOST = "127.77.0.1"
SETTINGS = {
    # Webs under test live on loopback addresses.
    "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
    # Wide open, so that a page waits only where a rule is set that is about waiting.
    "QUEUE_HITS": "2000",
    "QUEUE_WINDOW": "1",
    "CRAWLSTREAM_FINISH_GRACE": "1",
    "LOG_JSON": "true",
}
"""Settings of every cluster that is started for tests."""
_ROUND_SETTINGS = {
    # A crawl is forgotten soon after its end, so that key counts can be seen to be flat.
    "QUEUE_HITS": str(QUICK),
    "DUPEFILTER_TIMEOUT": "10",
    "DOWNLOAD_TIMEOUT": "5",
    # Longer than any fault keeps all crawlers of a spider away, but for the one that is for good.
    "MAX_WAIT": "90",
    # The auditor compares the topic of the one application with that of all.
    "KAFKA_APPID_TOPICS": "true",
}
_DROPS = {"CRAWLSTREAM_DROP": "noindex,reserved", "CRAWLSTREAM_PURPOSE": "train-ai"}
"""For crawlers of this version: the one before does not know them."""
_PATIENT = {
    # Pages must not fail because their browser is struck repeatedly.
    "RETRY_TIMES": "15",
    "CRAWLSTREAM_RENDER_TIMEOUT": "120",
}
RENDERER = "renderer"
"""The kind of process that a crawler with a browser is to the nemesis."""


class ChaosCluster:
    """A whole cluster whose servers can be struck one by one. ``async with`` it.

    Redis and Kafka stand behind proxies, which all clients but the nemesis use. What blocks is
    done on threads, one for each server, which it ends with.
    """

    def __init__(
        self,
        home: Path,
        *,
        pages: int,
        hosts: int,
        workers: int = 2,
        pipelines: int = 0,
        renderers: int = 0,
        has_shelf: bool = False,
        partitions: int = 1,
    ) -> None:
        """``pipelines``, ``renderers`` (crawlers with a browser): number of processes.

        ``has_shelf``: a Redis for long queues. ``partitions`` of the frontier, each on a Redis.
        """
        self.home = home
        self.workers = workers
        self.pipelines = pipelines
        self.renderers = renderers
        self.has_shelf = has_shelf
        self.before: Path | None = None
        """Python of the version that all processes are started by; None: this one."""
        self.redis_names = redis_names(partitions)
        """The Redis of each partition."""
        self.stores: Sequence[Reader] = ()
        """Readers of the pipelines' stores."""
        self._shape = _shape(pages, hosts)
        self.web = Web(free_block(1), **self._shape)
        self.servers: dict[str, RunningServer] = {}
        self.turns: defaultdict[str, Lock] = defaultdict(Lock)
        """By what is struck: one fault at a time has it, until it is well again."""
        self.proxies: dict[str, FaultyProxy] = {}
        self.rules = self._rules(QUICK)
        """Rules of the hosts, with their times."""
        self.site_log = AccessLogReader(home / "logs" / "visits.jsonl")
        self.extra_logs = itertools.count()
        """Numbers for the logs of processes that supervisor does not know."""
        self._places = itertools.cycle(range(20, 30))
        self._hands: dict[str, ThreadPoolExecutor] = {}
        self._stack = AsyncExitStack()
        self._frozen: set[int] = set()

    @property
    def bans(self) -> Mapping[str, str]:
        """Return why bodies are not kept, by URL; the version before this one keeps them all."""
        pages = () if self.before else self.web.pages
        return {self.web.url(page): ban for page in pages if (ban := self.web.ban_of(page))}

    async def __aenter__(self) -> Self:
        """Start everything, and let it end with the block; SetupError: another one has the home."""
        if LocalCluster(self.home, env=dict(os.environ)).is_running:
            raise SetupError(
                f"a cluster is running in {self.home}: wait for its end, stop it with"
                f" CRAWLSTREAM_HOME={self.home} ./crawlstream down, or set another home"
            )
        shutil.rmtree(self.home / "data", ignore_errors=True)
        shutil.rmtree(self.home / "logs", ignore_errors=True)
        (self.home / "logs").mkdir(parents=True)
        self.keyring = KeyRing(self.home / "data" / "signing")
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop everything that was started."""
        await self._stack.aclose()

    async def by_hand(self, what: str, call: Callable[..., T], *args: object) -> T:
        """Do what blocks to a server, or to the cluster: one thing at a time to each."""
        if what not in self._hands:
            self._hands[what] = ThreadPoolExecutor(1, what)
        return await asyncio.get_running_loop().run_in_executor(self._hands[what], call, *args)

    # Interface for nemesis.

    async def processes(self, kind: str) -> list[ProcessInfo]:
        """Return the running processes of a kind, as supervisor sees them, or of ``RENDERER``."""
        found = await asyncio.to_thread(self.local.processes)
        running = [each for each in found if each.pid and each.state != "EXITED"]
        if kind == RENDERER:
            return [each for each in running if is_lane(each.name.rpartition("-")[0])]
        return [each for each in running if each.kind == kind]

    def freeze(self, pid: int) -> None:
        """Stop a process in mid-step."""
        freeze(pid)
        self._frozen.add(pid)

    def thaw(self, pid: int) -> None:
        """Let it go on, if it is still there."""
        self._frozen.discard(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    @property
    def frontier(self) -> Frontiers:
        """The frontier, past the proxies."""
        return self.observed.frontiers

    async def state(self) -> FrontierState | None:
        """The frontier at a glance; None while no Redis answers."""
        return await self.observed.state()

    @asynccontextmanager
    async def slowly(self, rate: float) -> AsyncIterator[None]:
        """Allow each host ``rate`` requests per second inside the block, and more after it."""
        hits, window_s = (round(rate), 1.0) if rate >= 1 else (1, 1 / rate)
        await self.set_rate(hits, window_s)
        since = time.monotonic() * 1000 + _EFFECTIVE_MS
        try:
            yield
        finally:
            until = time.monotonic() * 1000
            self.rules += self._rules(hits, window_s, since=since, until=until)
        await self.set_rate(QUICK)

    async def set_rate(self, hits: int, window_s: float = 1.0) -> None:
        """Allow ``hits`` requests to each host per window from now on; wait until Redis knows."""
        wanted = hits, window_s
        async with asyncio.timeout(120):
            while True:
                with suppress(CrawlstreamError, RedisError, OSError):
                    await self._editor.set_rule(DEFAULT, hits=hits, window=window_s)
                    table = await self.frontier.rules.table()
                    if table is not None and (table.default.hits, table.default.window_s) == wanted:
                        return
                await asyncio.sleep(0.2)

    def _rules(
        self, hits: int, window_s: float = 1.0, *, since: float = -inf, until: float = inf
    ) -> list[HostRule]:
        return [
            HostRule(host=host, hits=hits, window_s=window_s, since=since, until=until)
            for host in self.web.hosts
        ]

    def fed(self, crawlid: str) -> FedCrawl:
        """Return the expected results of a crawl from the front page."""
        truth = expected_pages(self.web, FollowRules(maxdepth=DEPTH))
        return FedCrawl(
            crawlid=crawlid,
            delivered=truth.delivered,
            failed=dict.fromkeys(truth.forbidden, "robots"),
            redirected=len(truth.redirected),
        )

    def plain_urls(self) -> list[str]:
        """Pages that everybody may fetch."""
        return [self.web.url(page) for page in self.web.pages if page.kind is ContentKind.PAGE]

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment for a process of this cluster that supervisor does not know.

        Its health page is behind those of supervisor's own in the row of metrics ports.
        """
        own = {MARK: str(self.home), "CRAWLSTREAM_METRICS_OFFSET": str(next(self._places))}
        return {**self.local.environment(), **own, **more}

    @asynccontextmanager
    async def another_web(self, **shape: Any) -> AsyncIterator[None]:
        """Have another web crawled for a block, on as many or fewer of the same hosts."""
        usual = self.web, self.site_log
        log = self.home / "logs" / f"visits-{next(self.extra_logs)}.jsonl"
        shape = {**self._shape, **shape}
        async with served(free_block(1), shape, log, self.environment()) as web:
            self.web, self.site_log = web, AccessLogReader(log)
            try:
                yield
            finally:
                self.web, self.site_log = usual

    async def _start(self) -> None:
        self._stack.callback(self._rest_hands)
        self.collector = self._stack.enter_context(collecting())
        ports = Ports.free()
        await self._start_servers(ports)
        self.local = _local(self.home, self.before, ports, self._cluster_environment(ports))
        self._stack.push_async_callback(self.by_hand, "cluster", self.local.stop)
        self._stack.callback(self._thaw_all)
        await self.by_hand("cluster", self._start_cluster)
        settings = self.settings = load_settings(**self.local.environment())
        self._editor = ThrottleEditor(
            settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
        )
        self.observed = Observed({name: self.servers[name].port for name in self.redis_names})
        self._stack.push_async_callback(self.observed.close)
        kafka = f"127.0.0.1:{self.servers['kafka'].port}"
        self.recorder = RecordingWitness(kafka, settings.kafka_topic_prefix)
        self._stack.callback(self.recorder.close)
        self.logs = KafkaLogs(self.home / "data" / "kafka", settings.kafka_topic_prefix, OUTPUTS)
        site = served(self.web.port, self._shape, self.site_log.path, self.environment())
        await self._stack.enter_async_context(site)

    async def _start_servers(self, ports: Ports) -> None:
        configured = struck_servers(self.home, ports, self.redis_names, has_shelf=self.has_shelf)
        self.servers = {name: RunningServer(each) for name, each in configured.items()}
        if self.pipelines and self.before is None:
            search = await self.by_hand(SEARCH, RunningOpenSearch, self.home / "data")
            self.servers[SEARCH] = search
        for name, server in self.servers.items():
            if name not in WITHOUT_PROXY:
                proxy = self.proxies[name] = FaultyProxy(free_block(1), server.port)
                await proxy.start()
                self._stack.push_async_callback(proxy.stop)
        advertise(configured["kafka"], self.proxies["kafka"].port)
        await self.by_hand("kafka", servers.format_kafka, configured["kafka"])
        for name, server in self.servers.items():
            self._stack.push_async_callback(self.by_hand, name, server.kill)
            await self.by_hand(name, server.start)
        if self.pipelines:
            self.stores = readers(self.home, search=search_at(self.servers))

    def _cluster_environment(self, ports: Ports) -> Mapping[str, str]:
        return {
            **environment_without_settings(os.environ),
            **SETTINGS,
            **_of_rounds(self.before, self.collector),
            **self.keyring.settings,
            **(describe(self.home, search=search_at(self.proxies)) if self.pipelines else {}),
            **(_PATIENT if self.renderers else {}),
            **(on_shelf(self.proxies["shelf"]) if self.has_shelf else {}),
            "KAFKA_HOSTS": f"127.0.0.1:{self.proxies['kafka'].port}",
            **addresses([self.proxies[name] for name in self.redis_names]),
            "ZOOKEEPER_HOSTS": f"127.0.0.1:{ports.zookeeper}",
        }

    def _start_cluster(self) -> None:
        spiders = {"link": self.workers}
        if self.renderers:
            spiders[lane_of("link", renders=True)] = self.renderers
        self.local.start(spiders=spiders, pipelines=self.pipelines, tied=True)

    def _rest_hands(self) -> None:
        for hand in self._hands.values():
            hand.shutdown(wait=True)

    def _thaw_all(self) -> None:
        """A frozen process could not stop."""
        for pid in tuple(self._frozen):
            self.thaw(pid)


def _of_rounds(before: Path | None, collector: Collector) -> Mapping[str, str]:
    """Settings of processes, those of the version before without what it does not know."""
    own = {} if before else {**_DROPS, **collector.settings(SHARE)}
    return {**_ROUND_SETTINGS, **own}


def _shape(pages: int, hosts: int) -> Mapping[str, Any]:
    return {
        "hosts": hosts, "pages": pages, "seed": 1, "first_host": _FIRST_HOST,
        # Enough that some are in flight whenever a fault strikes.
        "slow_pages": pages // 3, "slow_s": 0.4,
        "moves_robots": 1, "noindex": 5, "reserved": 5,
    }  # fmt: skip


def _local(home: Path, before: Path | None, ports: Ports, given: Mapping[str, str]) -> LocalCluster:
    if before:
        return MixedCluster(home, before=before, ports=ports, env=given)
    return LocalCluster(home, ports=ports, env=given)
