"""The one cluster on which many stories are played at a time: monitors, crawlers, a site."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from crawlstream.egress.edit import PoolEditor
from crawlstream.keys import Partitions
from crawlstream_chaos.facts.facts import Strike, TopicRecord
from crawlstream_chaos.laws.invariants import Dump, check
from crawlstream_chaos.processes import LoggedCrawler, RunningServer
from crawlstream_chaos.scenes.web_proxy import WebProxy
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, serving
from crawlstream_chaos.witness import Witness
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from interplay.rows import database, describe, rows_of
from interplay.story import Story
from support.forks.program import run
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.session.names import fresh
from support.waiting import PATIENCE_S, wait_until

_SPIDERS = '''
import os
from crawling import ClusterSpider, Outlinks, links_of

class Shop(ClusterSpider):
    """Follows links by requests of its own."""
    name = "shop"

    def parse(self, response, **kwargs):
        links, _ = links_of(response)
        yield self.result(response, links, attrs={"by": self.name})
        for url, _ in links:
            yield response.follow(url, callback=self.parse_item)

    def parse_item(self, response, **kwargs):
        yield from self.parse(response)

class Lists(ClusterSpider):
    """Hands each link over to the other spider."""
    name, other = "lists", "items"

    def parse(self, response, **kwargs):
        links, refused = links_of(response)
        yield self.result(response, links, attrs={"by": self.name})
        yield Outlinks([url for url, _ in links], refused, spiderid=self.other)

class Items(Lists):
    """Hands each link back."""
    name, other = "items", "lists"

class Givers(ClusterSpider):
    """Keeps all links but those below /late/, which are for the spider that they name."""
    name = "givers"

    def parse(self, response, **kwargs):
        links, refused = links_of(response)
        urls = [url for url, _ in links]
        yield self.result(response, links, attrs={"by": self.name})
        yield Outlinks([url for url in urls if "/late/" not in url], refused)
        for url in urls:
            if "/late/" in url:
                yield Outlinks([url], spiderid=url.rpartition("/")[2])

class Late(ClusterSpider):
    """Is not there until its story starts it."""
    name = os.environ.get("LATE", "late")

    def parse(self, response, **kwargs):
        yield self.result(response, [], attrs={"by": self.name})
'''
SPIDERS = ("link", "sitemap", "shop", "lists", "items", "givers")
OPTIONS = {
    "QUEUE_HITS": "100000",
    "QUEUE_WINDOW": "1",
    "QUEUE_MODERATED": "false",
    "CRAWLSTREAM_FINISH_GRACE": "0.3",
    "CRAWLSTREAM_SCHEDULE_MIN_S": "1",
    "CRAWLSTREAM_SPIDER_MODULES": "storyspiders",
    "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
    "CRAWLSTREAM_SHELVE_AT": "4",
    "CRAWLSTREAM_MAX_WAIT": "10",
    "ROBOTSTXT_OBEY": "true",
    # The root page waits until the features of its story have acted.
    "DOWNLOAD_TIMEOUT": "90",
}
"""Settings of all processes."""
_POOLS_KNOWN_S = 3.0
"""By then every crawler has looked at the pools."""
_OF_WAITING = (b"queued", b"delayed", b"held", b"spilled", b"shelved")


class StoryWitness(Witness):
    """A plain Kafka client that keeps what it has read by application."""

    def __init__(self, hosts: str, prefix: str) -> None:
        self._by_app: defaultdict[str, list[TopicRecord]] = defaultdict(list)
        super().__init__(hosts, prefix)

    def of(self, appid: str) -> Sequence[TopicRecord]:
        """Return all records of an application so far, in the order in which they were read."""
        return tuple(self._by_app.get(appid, ()))

    def _note(self, records: Iterable[Any]) -> None:
        before = len(self._seen)
        records = list(records)
        super()._note(records)
        for record, seen in zip(records, self._seen[before:], strict=True):
            value = {name: what for name, what in seen.value.items() if name != "body"}
            if seen.topic == "rejected":
                # A rejected record names its application only inside.
                raw = value.pop("raw", None)
                value = {**(json.loads(b64decode(raw)) if raw else {}), "reason": value["reason"]}
            self._by_app[str(value.get("appid"))].append(
                TopicRecord(
                    topic=seen.topic,
                    key=seen.key,
                    value=value,
                    partition=record.partition,
                    offset=record.offset,
                    at=time.monotonic() * 1000,
                )
            )


class StorySite(CrawlerSite):
    """Serves each host by the story that it belongs to."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        super().__init__(pages)
        self.stories: dict[str, Story] = {}

    def answer_to(self, visit: SeenRequest) -> Answer:
        """Note a visit, and have its story answer."""
        self.visits.append(visit)
        return self.stories[visit.host].answer_to(visit)


class Ground:
    """The running cluster, and what stories do to it."""

    POOL = "stories"
    """The pool of the one proxy."""

    def __init__(
        self,
        cluster: MonitorCluster,
        redis: Sequence[RunningServer],
        site: StorySite,
        witness: StoryWitness,
        *,
        home: Path,
        code: Sequence[Path] = (),
    ) -> None:
        self._home = home
        path = cluster.python_path(*code, home)
        self._of_crawlers = {"ROBOTSTXT_OBEY": "true", "PYTHONPATH": path}
        self.cluster = cluster
        self.redis = redis
        self.site = site
        self.witness = witness
        self.crawlers: dict[str, LoggedCrawler] = {}
        self.pipeline: MonitorProcess | None = None
        self.strikes: list[Strike] = []
        self._meeting = asyncio.Barrier(1)
        self.proxy = WebProxy(free_block(1))
        self._opening = asyncio.Lock()
        self._is_open = False

    async def open_proxy(self) -> None:
        """Start the proxy of the pool, once, and wait until crawlers and monitors know it."""
        async with self._opening:
            if self._is_open:
                return
            await self.proxy.start()
            settings = self.cluster.settings()
            editor = PoolEditor(settings.zookeeper_hosts, settings.proxies_path)
            line = {"url": f"http://127.0.0.1:{self.proxy.port}"}
            written = await editor.set_pool(self.POOL, [line], policy={"rest": 1})
            partitions = Partitions(self.cluster.prefix, len(self.redis))

            async def is_copied() -> bool:
                for number, server in enumerate(self.redis):
                    keys = partitions.keys(number) if len(self.redis) > 1 else self.cluster.keys
                    async with Redis(port=server.port) as redis:
                        table = await Frontier(redis, keys).pools.table()
                    if table is None or table.mzxid < written.mzxid:
                        return False
                return True

            await wait_until(is_copied, timeout_s=PATIENCE_S, every_s=0.2)
            await asyncio.sleep(_POOLS_KNOWN_S)
            self._is_open = True

    async def close(self) -> None:
        """Stop the proxy of this process."""
        if self._is_open:
            await self.proxy.stop()

    def feed(self, *requests: Mapping[str, Any]) -> None:
        """Feed requests of one application, in this order."""
        self.cluster.feed_in_order(requests[0]["appid"], *requests)

    async def ask(self, story: Story, **request: Any) -> Mapping[str, Any]:
        """Feed a request about a story's application and wait for its reply."""
        uuid = f"{story.appid}-{len(story.steps)}"
        story.note(f"ask {request}")
        asked = {"uuid": uuid, "appid": story.appid, **request}
        await asyncio.to_thread(self.feed, asked)
        return await self.witness.answered(uuid)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``crawlstream …`` to its end."""
        argv = ("crawlstream_cli", *arguments)
        return run(*argv, env=self.cluster.env, folder=self._home, timeout_s=PATIENCE_S)

    @contextmanager
    def another_crawler(self, spider: str, **env: str) -> Iterator[LoggedCrawler]:
        """Run a crawler for the length of the block."""
        with self.cluster.crawler(spider, **self._of_crawlers, **env) as crawler:
            yield crawler

    def rows(self, appid: str) -> Sequence[Mapping[str, Any]]:
        """Return what the pipeline has stored of an application."""
        return rows_of(database(self._home), appid)

    def expect_crashes(self, stories: int) -> None:
        """Let this number of stories wait for each other, then crash once for all of them."""
        self._meeting = asyncio.Barrier(stories)

    async def crash(self, story: Story) -> None:
        """Kill all crawlers and the pipeline, once for all stories that wait for it."""
        async with asyncio.timeout(PATIENCE_S):
            if await self._meeting.wait() == 0:
                await self._kill()
            await self._meeting.wait()
        story.note("kill -9 of all crawlers and of the pipeline, and a new start")

    async def _kill(self) -> None:
        assert self.pipeline is not None
        for process in (*self.crawlers.values(), self.pipeline):
            await asyncio.to_thread(process.kill)
            process.start()
        # No crawl here has more pages at a time than this in flight.
        strike = Strike(
            fault="kill-crawler", target="crawler", at=time.monotonic() * 1000, in_flight=1000
        )
        self.strikes.append(strike)

    async def left_over(self) -> Sequence[str]:
        """Return what is wrong in Redis once all is over: every key must have its reason."""
        nobodys = [r for r in self.witness.of("None") if r.topic == "rejected"]
        found = [f"rejected, and nobody knows whose it is: {r.value}" for r in nobodys]
        partitions = Partitions(self.cluster.prefix, len(self.redis))
        for number, server in enumerate(self.redis):
            async with Redis(port=server.port) as redis:
                keys = partitions.keys(number) if len(self.redis) > 1 else self.cluster.keys
                try:
                    state = await check(redis, keys)
                except AssertionError as error:
                    found.append(f"partition {number}: {str(error)[:300]}")
                else:
                    found += [f"partition {number}: {key} is left" for key in _of_work(state)]
        return found


def _of_work(state: Dump) -> Sequence[str]:
    """Return what only waiting or leased pages have: queues, their parts, delays, counters."""
    named = [
        (letter, *one) for letter in ("b", "bt", "bc", "y", "q") for one in state.named(letter)
    ]
    keys = [f"{letter}:{':'.join(parts)}" for letter, parts, value in named if value]
    for (crawl,), ledger in state.named("x"):
        counts = {name: int(ledger.get(name, 0)) for name in _OF_WAITING}
        keys += [f"{name.decode()} of crawl {crawl}" for name, count in counts.items() if count]
    return keys


@contextmanager
def ground(
    servers: Servers,
    redis: Sequence[RunningServer],
    shelf: RunningServer,
    *,
    home: Path,
    code: Sequence[Path] = (),
) -> Iterator[Ground]:
    """Run a cluster over one or several Redis for the length of the block.

    ``code``: folders from which the crawlers import packages before those of the checkout.
    """
    (home / "storyspiders.py").write_text(_SPIDERS)
    more = {**OPTIONS, "CRAWLSTREAM_SHELF": f"redis://127.0.0.1:{shelf.port}/0"}
    if len(redis) > 1:
        more["REDIS_HOSTS"] = ",".join(f"127.0.0.1:{server.port}" for server in redis)
    cluster = MonitorCluster(servers, name=fresh("story"), home=home, more=more)
    with ExitStack() as stack:
        witness = StoryWitness(cluster.kafka_hosts, cluster.prefix)
        stack.callback(witness.close)
        site = stack.enter_context(serving({}, StorySite))
        assert isinstance(site, StorySite)
        found = Ground(cluster, redis, site, witness, home=home, code=code)
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor())
        for spider in SPIDERS:
            found.crawlers[spider] = stack.enter_context(found.another_crawler(spider))
        found.pipeline = stack.enter_context(cluster.pipelines(describe(home)))
        yield found


async def settled(place: Ground) -> Sequence[str]:
    """Wait until nothing is left in Redis; what is left if that does not come."""
    found: Sequence[str] = ()

    async def is_settled() -> bool:
        nonlocal found
        found = await place.left_over()
        return not found

    try:
        await wait_until(is_settled, timeout_s=30, every_s=0.5)
    except TimeoutError:
        return found
    return ()
