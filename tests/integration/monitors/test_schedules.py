"""Schedules between real monitors: fired once in effect, told, and back after a loss of Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets
from crawlstream.bus.topics import forget_records
from crawlstream.errors import NoFrontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Outcome, Settle
from crawlstream.model.recurring.schedule import ScheduleState
from crawlstream.model.state import CrawlState
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.witness import Witness
from crawlstream_cli.app import run
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.schedules import DueSchedules
from crawlstream_frontier.worker.session import WorkerSession
from support import servers
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.waiting import WaitUntil

APP = "recur"
SEEDS = 300
WIDE_OPEN = {"QUEUE_HITS": "100000", "QUEUE_WINDOW": "1", "QUEUE_MODERATED": "false"}
SECONDS = {"CRAWLSTREAM_SCHEDULE_MIN_S": "1", **WIDE_OPEN}
FILE_SEEDS = 1_500
"""More than are fed at once."""
NEVER = "0 0 29 2 *"
"""So seldom that it fires by request only."""


@dataclass(frozen=True, slots=True)
class Place:
    """A kafka-monitor, and a Redis of this test's own."""

    cluster: MonitorCluster
    witness: Witness
    stores: Mapping[str, str]

    @contextmanager
    def redis_monitor(self, **env: str) -> Iterator[MonitorProcess]:
        """A redis-monitor for the length of the block."""
        options = {"CRAWLSTREAM_FINISH_GRACE": "0.5", **WIDE_OPEN, **self.stores}
        with self.cluster.redis_monitor(**options, **env) as process:
            yield process

    def say(self, name: str, do: str, **more: object) -> str:
        """Feed a request about a schedule; its uuid."""
        uuid = f"{name}-{do}-{len(self.witness.records('outbound_firehose'))}"
        told = {"uuid": uuid, "appid": APP, "schedule": name, "do": do, **more}
        self.cluster.feed_in_order(f"{APP}:{name}", told)
        return uuid

    async def set(self, name: str, seeds: int | None = 3, **more: object) -> Mapping[str, Any]:
        """Set a schedule whose crawl and spider have its name; the reply."""
        crawl = {"crawlid": name, "spiderid": name, **dict(more.pop("crawl", {}))}  # type: ignore[call-overload]
        told = {
            "cron": NEVER,
            "crawl": crawl,
            "seeds": None if seeds is None else _seeds(seeds),
            **more,
        }
        return await self.witness.answered(self.say(name, "set", **told))

    def events(self, name: str) -> list[tuple[str, str]]:
        """Records of a schedule, repeats under the same key left out."""
        seen = {one.key: one.value for one in self.witness.records("events", schedule=name)}
        return [(value["event"], value.get("reason", "")) for value in seen.values()]

    async def crawl_state(self, name: str) -> CrawlState | None:
        """The ledger of the crawl of a schedule."""
        async with Redis(port=self.cluster.redis_port) as redis:
            queries = Frontier(redis, self.cluster.keys).queries
            return await queries.crawl_state(CrawlKey(name, APP, name), with_domains=False)

    async def schedule(self, name: str) -> ScheduleState | None:
        """A schedule, if there is one."""
        async with Redis(port=self.cluster.redis_port) as redis:
            return await Frontier(redis, self.cluster.keys).schedules.one(APP, name)

    async def due(self) -> DueSchedules:
        """Firings that are due and not lent."""
        async with Redis(port=self.cluster.redis_port) as redis:
            return await Frontier(redis, self.cluster.keys).schedules.due("nobody", most=0)

    async def put(self, name: str, *, look_at: int = 0, **fields: int) -> None:
        """Change fields of a schedule in Redis, and when it is looked at next."""
        field = FrontierKeys.schedule_field(APP, name)
        async with Redis(port=self.cluster.redis_port) as redis:
            for each, value in fields.items():
                await redis.hset(self.cluster.keys.schedule(field), each, value)
            await redis.zadd(self.cluster.keys.schedules(), {field: look_at})

    async def forget_requests(self) -> None:
        """Have Kafka delete what it has of them, as it does when they are old."""
        kafka, topic = Kafka([self.cluster.kafka_hosts]), f"{self.cluster.prefix}.incoming"
        await forget_records(kafka, topic, await end_offsets(kafka, topic))

    async def has_admitted(self, name: str, count: int) -> bool:
        """Return whether the crawl of a schedule has that number of pages, each once."""
        state = await self.crawl_state(name)
        assert state is None or state.admitted <= count
        return state is not None and state.admitted == count

    async def crawl_all(self, name: str, count: int, wait_until: WaitUntil) -> None:
        """Fetch that number of pages of a crawl, until it has finished."""
        async with Redis(port=self.cluster.redis_port) as redis:
            session = Frontier(redis, self.cluster.keys).session(f"worker-{name}", name)
            done = 0

            async def step() -> bool:
                nonlocal done
                try:
                    done += await _settle_all(session)
                except NoFrontier:
                    return False
                assert done <= count
                return done == count

            await wait_until(step)
            await session.retire()

        async def is_over() -> bool:
            state = await self.crawl_state(name)
            return state is not None and state.state == "finished"

        await wait_until(is_over)


def _seeds(count: int) -> list[str]:
    return [f"http://site{number % 20}.example.com/{number}" for number in range(count)]


async def _settle_all(session: WorkerSession) -> int:
    """Lease what is due and say that it is done; how much that was."""
    leased = await session.exchange(want=200)
    ends = [
        Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", sent_ms=1)
        for lease in leased.leases
    ]
    await session.exchange(settles=ends)
    return len(ends)


@pytest.fixture
def place(
    kafka_server: RunningServer, zookeeper_server: RunningServer, fresh_name: str, tmp_path: Path
) -> Iterator[Place]:
    """A kafka-monitor at work."""
    home = tmp_path / "monitors"
    home.mkdir()
    with servers.redis(tmp_path / "redis") as server:
        used = Servers(server, kafka_server, zookeeper_server)
        cluster = MonitorCluster(used, name=f"recur{fresh_name}", home=home)
        witness = Witness(cluster.kafka_hosts, cluster.prefix)
        stores = {"CRAWLSTREAM_SEED_STORES": f"file://{tmp_path}"}
        with cluster.kafka_monitor(**SECONDS, **stores):
            yield Place(cluster, witness, stores)
        witness.close()


async def test_it_fires_by_the_clock_and_says_what_it_skips(
    place: Place, wait_until: WaitUntil
) -> None:
    """Seeds enter as one run; while that is open, or paused, times are skipped, and reported."""
    with place.redis_monitor():
        reply = await place.set("clock", cron="* * * * * *")
        assert reply["next"]
        assert not reply["paused"]
        await wait_until(lambda: ("schedule_skipped", "running") in place.events("clock"))
        await wait_until(lambda: place.has_admitted("clock", 3))
        stop = {"appid": APP, "spiderid": "clock", "crawlid": "clock"}
        await place.witness.answered(place.witness.feed_request(action="pause", **stop))
        await wait_until(lambda: ("schedule_skipped", "crawl_paused") in place.events("clock"))

        async def alarms() -> bool:
            return (await place.due()).skipping == 1

        await wait_until(alarms)
        await place.witness.answered(place.say("clock", "pause"))
        await wait_until(lambda: ("schedule_skipped", "paused") in place.events("clock"))
        assert place.events("clock").count(("schedule_fired", "")) == 1
        gone = await place.witness.answered(place.say("clock", "remove"))
        assert "error" not in gone
        assert await place.schedule("clock") is None
        told = await place.witness.answered(place.say("clock", "show"))
        assert told["error"] == "no such schedule"


async def test_a_firing_that_is_requested_again_is_skipped(
    place: Place,
    wait_until: WaitUntil,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Reply, event and command say so; and of a time that comes again with Redis' clock."""
    with place.redis_monitor():
        await place.set("twice")
    for uuid in ("first", "second"):
        place.say("twice", "fire", uuid=uuid)

    async def are_skipped(count: int = 1) -> bool:
        state = await place.schedule("twice")
        return state is not None and state.skipped == count

    await wait_until(are_skipped)
    with place.redis_monitor():
        replies = [await place.witness.answered(uuid) for uuid in ("first", "second")]
        assert [one["outcome"] for one in replies] == ["fires", "skipped"]
        assert replies[1]["reason"] == "pending"
        await place.crawl_all("twice", 3, wait_until)
        await wait_until(lambda: len(place.events("twice")) == 2)
        assert sorted(place.events("twice")) == [
            ("schedule_fired", ""),
            ("schedule_skipped", "pending"),
        ]
        before = await place.schedule("twice")
        assert before is not None
        # As a clock leaves it that was set back to before the firing.
        await place.put("twice", last=before.fired_at - 1, fire=before.fired_at)
        await wait_until(lambda: ("schedule_skipped", "repeated") in place.events("twice"))
        state = await place.schedule("twice")
        assert state is not None
        assert (state.fired, state.skipped, state.repeated, state.fire) == (1, 2, 0, 0)

        await place.put("twice", look_at=2**40, fire=before.fired_at + 60)
        for name, value in place.cluster.env.items():
            monkeypatch.setenv(name, value)
        command = ["schedule", "fire", "twice", "--appid", APP]
        assert await asyncio.to_thread(run, command) == 0
        assert "Skipped: a firing of twice" in capfd.readouterr().out


async def test_what_cannot_fire_is_refused(place: Place) -> None:
    """Refuses a schedule that cannot fire with the reason, under its uuid."""
    reply = await place.set("bad", cron="@daily")
    assert (reply["action"], reply["schedule"]) == ("rejected", "bad")
    assert "write `0 0 * * *`" in reply["errors"][0]


@pytest.mark.parametrize("step", ["before_fire", "after_fire"])
async def test_a_death_amid_a_firing_repeats_it_without_effect(
    place: Place, step: str, wait_until: WaitUntil
) -> None:
    """Each seed enters once, the firing is published once, and repeated records were counted."""
    with place.redis_monitor(FAILPOINT=f"{step}:kill") as doomed:
        await place.set("deaths", SEEDS)
        place.say("deaths", "fire")
        await wait_until(lambda: not doomed.is_running())
    with place.redis_monitor():
        await wait_until(lambda: ("schedule_fired", "") in place.events("deaths"))
        await wait_until(lambda: place.has_admitted("deaths", SEEDS))
        state = await place.schedule("deaths")
        assert state is not None
        assert (state.fired, state.skipped) == (1, 0)

        async def counts_all() -> bool:
            found = await place.schedule("deaths")
            return found is not None and found.repeated == (SEEDS if step == "after_fire" else 0)

        await wait_until(counts_all)
        assert place.events("deaths") == [("schedule_fired", "")]
        assert await place.has_admitted("deaths", SEEDS)


async def test_a_death_amid_a_firing_that_stops_stops_once(
    place: Place, wait_until: WaitUntil
) -> None:
    """The crawl of the last firing is stopped, that of this one is not."""
    with place.redis_monitor():
        await place.set("stops", overlap="stop")
        place.say("stops", "fire")
        await wait_until(lambda: place.has_admitted("stops", 3))
        await wait_until(lambda: len(place.events("stops")) == 1)
    with place.redis_monitor(FAILPOINT="after_fire:kill") as doomed:
        place.say("stops", "fire")
        await wait_until(lambda: not doomed.is_running())
    with place.redis_monitor():
        await wait_until(lambda: len(place.events("stops")) == 2)
        assert place.events("stops")[1] == ("schedule_fired", "")

        async def is_second() -> bool:
            state = await place.crawl_state("stops")
            return state is not None and (state.run, state.queued) == (2, 3)

        await wait_until(is_second)
        await place.crawl_all("stops", 3, wait_until)
        endings = [one["event"] for one in place.witness.events("stops") if one.get("run") == 1]
        assert "crawl_stopped" in endings


async def test_seeds_of_a_file_enter_once_though_their_feeder_dies(
    place: Place, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Feeds each seed of a file once though the feeder dies; a bad line feeds nothing."""
    file = tmp_path / "seeds.txt"
    file.write_text("\n".join(_seeds(FILE_SEEDS)))
    with place.redis_monitor(FAILPOINT="amid_fire:kill") as doomed:
        reply = await place.set("file", seeds=None, seeds_from=f"file://{file}")
        assert "errors" not in reply
        place.say("file", "fire")
        await wait_until(lambda: not doomed.is_running())
    with place.redis_monitor():
        await wait_until(lambda: place.events("file") == [("schedule_fired", "")])
        await wait_until(lambda: place.has_admitted("file", FILE_SEEDS))
        state = await place.schedule("file")
        assert state is not None
        assert 0 < state.repeated < FILE_SEEDS
        file.write_bytes(b"http://a.example.com/\n\xff")
        await place.crawl_all("file", FILE_SEEDS, wait_until)
        place.say("file", "fire")
        await wait_until(lambda: ("schedule_skipped", "no_seeds") in place.events("file"))
        state = await place.schedule("file")
        assert state is not None
        assert state.detail == f"file://{file}: line 2: not UTF-8"


async def test_redis_emptied_between_two_firings(place: Place, wait_until: WaitUntil) -> None:
    """The schedule is there again, paused as it was, and neither fires again what it has fired."""
    with place.redis_monitor():
        await place.set("lost", SEEDS)
        await place.set("still")
        await place.witness.answered(place.say("still", "pause"))
        place.say("lost", "fire")
        await place.crawl_all("lost", SEEDS, wait_until)
        before = await place.schedule("lost")
        assert before is not None
        await wait_until(lambda: len(place.witness.events("lost", "crawl_finished")) == 1)
        async with Redis(port=place.cluster.redis_port) as redis:
            await redis.flushall()

        async def is_back() -> bool:
            return await place.schedule("lost") is not None

        await wait_until(is_back)
        after, still = await place.schedule("lost"), await place.schedule("still")
        assert after is not None
        assert still is not None
        assert (after.schedule, after.last) == (before.schedule, before.last)
        assert still.is_paused
        place.say("lost", "fire")
        await place.crawl_all("lost", SEEDS, wait_until)
        await wait_until(lambda: place.events("lost") == [("schedule_fired", "")] * 2)


def _once_in(seconds: int) -> str:
    """The cron expression of one moment."""
    at = datetime.fromtimestamp(int(time.time()) + seconds, UTC)
    return f"{at.second} {at.minute} {at.hour} {at.day} {at.month} *"


@pytest.mark.parametrize("are_deleted", [False, True], ids=["kept", "deleted"])
async def test_redis_lost_behind_a_firing_that_nobody_has_noted(
    place: Place, wait_until: WaitUntil, *, are_deleted: bool
) -> None:
    """It was fed, not noted, and crawled to its end: it is fed again, and told, and not crawled.

    Whether or not Kafka still has its seeds.
    """
    with place.redis_monitor(FAILPOINT="after_fire:kill") as doomed:
        await place.set("unnoted", SEEDS)  # Whose answer says that both monitors are at work.
        await place.set("unnoted", SEEDS, cron=_once_in(5))
        await wait_until(lambda: not doomed.is_running())
    await wait_until(lambda: place.has_admitted("unnoted", SEEDS))
    async with Redis(port=place.cluster.redis_port) as redis:
        field = FrontierKeys.schedule_field(APP, "unnoted")
        await redis.zadd(place.cluster.keys.schedules(), {field: 2**40})  # No process looks at it.
        with place.redis_monitor():
            await place.crawl_all("unnoted", SEEDS, wait_until)
            await wait_until(lambda: len(place.witness.events("unnoted", "crawl_finished")) == 1)
            assert not place.events("unnoted")
            if are_deleted:
                await place.forget_requests()
            await redis.flushall()
            await wait_until(lambda: place.events("unnoted") == [("schedule_fired", "")])

            async def is_read_again() -> bool:
                assert await place.crawl_state("unnoted") is None
                state = await place.schedule("unnoted")
                return state is not None and state.repeated == SEEDS

            await wait_until(is_read_again)
