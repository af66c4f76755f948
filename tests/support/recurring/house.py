"""A cluster that schedules feed: monitors, crawlers and a web, for tests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream_chaos.scripted_site import CrawlerSite
from crawlstream_chaos.witness import Witness
from support.monitors import MonitorCluster, MonitorProcess
from support.waiting import wait_until

OPTIONS = {
    "QUEUE_HITS": "100000",
    "QUEUE_WINDOW": "1",
    "QUEUE_MODERATED": "false",
    "CRAWLSTREAM_SCHEDULE_MIN_S": "1",
    "CRAWLSTREAM_FINISH_GRACE": "0.3",
    # URLs that were seen are forgotten at once, unless a crawl says otherwise.
    "DUPEFILTER_TIMEOUT": "0",
}


@dataclass(slots=True)
class House:
    """Tools of a client of schedules; each test has an application of its own."""

    cluster: MonitorCluster
    witness: Witness
    site: CrawlerSite
    seeds: Path
    """The folder of files with seeds."""
    _seen: int = field(default=0)

    @property
    def options(self) -> Mapping[str, str]:
        """Settings of both monitors."""
        return {**OPTIONS, "CRAWLSTREAM_SEED_STORES": f"file://{self.seeds}"}

    @contextmanager
    def redis_monitor(self, **env: str) -> Iterator[MonitorProcess]:
        """A redis-monitor for the length of the block."""
        with self.cluster.redis_monitor(**self.options, **env) as process:
            yield process

    async def say(self, appid: str, do: str, **more: object) -> Mapping[str, Any]:
        """Do something to the schedule ``news`` of an application; the reply."""
        uuid = f"{appid}-{do}-{len(self.witness.records('outbound_firehose'))}"
        told = {"uuid": uuid, "appid": appid, "schedule": "news", "do": do, **more}
        self.cluster.feed_in_order(f"{appid}:news", told)
        reply = await self.witness.answered(uuid)
        assert "error" not in reply, reply
        assert "errors" not in reply, reply
        return reply

    async def fire(self, appid: str) -> None:
        """Have it fire, as if an hour after its last firing, and wait for the end of its crawl."""
        before = len(self.events(appid, "crawl_finished"))
        # With a `last` far ahead, a firing within the same second would be a repetition.
        last = max((event["at"] for event in self.events(appid, "schedule_fired")), default=0)
        await wait_until(lambda: time.time() >= last + 1)
        await self.later(appid, "last", 3_600)
        await self.say(appid, "fire")
        await wait_until(lambda: len(self.events(appid, "crawl_finished")) > before)

    async def later(self, appid: str, time: str, by_s: int) -> None:
        """Change a time of a schedule in Redis: an hour is not waited for."""
        key = self.cluster.keys.schedule(FrontierKeys.schedule_field(appid, "news"))
        async with Redis(port=self.cluster.redis_port) as redis:
            if await redis.hexists(key, time):
                await redis.hincrby(key, time, by_s)

    async def is_told(self, appid: str, name: str) -> bool:
        """Return whether there was such an event; trigger a check of the schedule first."""
        async with Redis(port=self.cluster.redis_port) as redis:
            field = FrontierKeys.schedule_field(appid, "news")
            await redis.zadd(self.cluster.keys.schedules(), {field: 0})
        return bool(self.events(appid, name))

    def events(self, appid: str, name: str) -> list[dict[str, Any]]:
        """Events of an application so far, repeats under the same key left out."""
        records = self.witness.records("events", appid=appid, event=name)
        return list({one.key: one.value for one in records}.values())

    def begin(self, **pages: object) -> None:
        """A new test's web."""
        self.site.pages = {f"/{name}": answer for name, answer in pages.items()}  # type: ignore[misc]
        self._seen = len(self.site.visits)

    def visits(self) -> Counter[str]:
        """How often each path was asked for since then."""
        return Counter(visit.path for visit in self.site.visits[self._seen :])
