"""Limits kept apart by spider type and egress group, where the operator says so."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import SentRequest
from crawlstream.model.throttle_table import Reaction, SiteReaction, ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.frontier import Frontier
from support.frontier.bench import KEYS, WIDE_OPEN, Bench, Worker, url_of
from support.windows import due_ms

pytest_plugins = ["support.frontier.fixtures"]

SLOW = ThrottleRule(hits=1, window_s=10)
OTHER = CrawlKey("other", "app", "c")


def worker_of(bench: Bench, group: str, spiderid: str = "link", number: int = 1) -> Worker:
    """A worker that asks from some addresses."""
    name = f"{spiderid}-{group}-{number}"
    session = Frontier(bench.redis, KEYS).session(name, spiderid, group=group)
    return Worker(session, name, spiderid)


async def come(worker: Worker, want: int = 50) -> list[str]:
    """Pages that may be fetched now; they are fetched at once."""
    leases = await worker.lease(want)
    await worker.settle(*leases, sent_ms=0)
    return sorted(map(url_of, leases))


@pytest.fixture
async def by_type(bench: Bench) -> Bench:
    """A frontier whose limits are kept for each spider type."""
    await bench.rule(SLOW)
    await bench.frontier.rules.agree("type")
    return bench


@pytest.fixture
async def by_group(bench: Bench) -> tuple[Bench, Worker, Worker]:
    """A frontier whose limits are kept for each egress group, and a worker of each of two."""
    await bench.rule(SLOW)
    await bench.frontier.rules.agree("group")
    east, west = worker_of(bench, "east"), worker_of(bench, "west")
    for worker in (east, west):
        assert await come(worker) == []
    await bench.tend()
    return bench, east, west


async def test_the_first_word_decides(bench: Bench) -> None:
    """A process with another scope gets an error with both and the remedy; force changes it."""
    await bench.frontier.rules.agree("type")
    await bench.frontier.rules.agree("type")
    with pytest.raises(ConfigError) as refused:
        await bench.frontier.rules.agree("")
    assert "require limits for a domain, but this cluster keeps limits for each spider type" in str(
        refused.value
    )
    assert "throttle rescope" in str(refused.value)
    await bench.frontier.rules.agree("", by_force=True)
    await bench.frontier.rules.agree("")


async def test_a_crawler_that_disagrees_exits_2(
    bench: Bench, redis_server: RunningServer, tmp_path: Path
) -> None:
    """It reports its setting and the cluster's, and leases nothing."""
    await bench.frontier.rules.agree("type")
    env = {
        **os.environ,
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(redis_server.port),
        "CRAWLSTREAM_HOME": str(tmp_path),
        "SCHEDULER_IP_ENABLED": "true",
    }
    argv = (sys.executable, "-P", "-m", "crawling", "link")
    for group, sentence in (
        ("east", "for each egress group, but this cluster keeps limits for each spider type"),
        ("", "SCHEDULER_IP_ENABLED needs CRAWLSTREAM_EGRESS_GROUP"),
    ):
        crawler = await asyncio.create_subprocess_exec(
            *argv, env={**env, "CRAWLSTREAM_EGRESS_GROUP": group}, stderr=PIPE, stdout=PIPE
        )
        _, said = await asyncio.wait_for(crawler.communicate(), 60)
        assert (crawler.returncode, sentence in said.decode()) == (2, True), said


@pytest.mark.usefixtures("still")
async def test_each_spider_type_has_its_own_allowance(by_type: Bench) -> None:
    """Requests of one spider do not hold the other back; within each the rule holds."""
    bench, other = by_type, by_type.another_worker("w2", "other")
    await bench.feed.seeds("a/1", "a/2")
    await bench.feed.seeds("a/3", "a/4", crawl=OTHER)
    assert await come(bench.worker) == ["a/1"]
    assert await come(other) == ["a/3"]
    assert (await come(bench.worker), await come(other)) == ([], [])
    assert await due_ms(other) > 9_000
    await bench.advance(10_000)
    assert (await come(bench.worker), await come(other)) == (["a/2"], ["a/4"])


@pytest.mark.usefixtures("still")
async def test_a_domain_that_ran_empty_is_remembered_by_its_own_rule(by_type: Bench) -> None:
    """Requests count for as long as that rule says, not for as long as the default one."""
    bench = by_type
    twice = ThrottleRule(hits=2, window_s=1_000, moderated=False)
    await bench.rule(WIDE_OPEN, {"a": twice})
    await bench.feed.seeds("a/1")
    assert await come(bench.worker) == ["a/1"]
    assert await come(bench.worker) == [], "that it is empty is found now"
    await bench.advance(990_000)
    await bench.feed.seeds("a/2")
    assert await come(bench.worker) == ["a/2"]
    assert await come(bench.worker) == []
    await bench.advance(20_000)
    await bench.tend()
    await bench.feed.seeds("a/3", "a/4")
    assert await come(bench.worker) == ["a/3"]
    await bench.advance(981_000)
    assert await come(bench.worker) == ["a/4"]


@pytest.mark.usefixtures("still")
async def test_a_domain_that_cools_down_for_one_group_is_due_for_the_other(
    by_group: tuple[Bench, Worker, Worker],
) -> None:
    """Each group has an allowance, and sleeps until its own next moment."""
    bench, east, west = by_group
    await bench.feed.seeds(*(f"a/{n}" for n in range(5)))
    assert await come(east) == ["a/0"]
    assert await come(east) == []
    assert 9_000 < await due_ms(east) <= 10_000
    await bench.advance(4_000)
    assert await come(west) == ["a/1"]
    assert (await come(east), await come(west)) == ([], [])
    await bench.advance(6_000)
    assert (await come(west), await come(east)) == ([], ["a/2"])
    await bench.advance(4_000)
    assert (await come(east), await come(west)) == ([], ["a/3"])
    await bench.advance(10_000)
    assert await come(west) == ["a/4"]
    assert await come(east) == []
    answer = await east.exchange(want=1)
    assert answer.next_due_ms is None, "nothing waits any more, for anybody"


@pytest.mark.usefixtures("still")
async def test_a_group_that_comes_later_sees_what_waits(
    by_group: tuple[Bench, Worker, Worker],
) -> None:
    """Its view is filled by care, also with what is parked or cools down for the others."""
    bench, east, _ = by_group
    await bench.rule(SLOW, {"b": WIDE_OPEN}, blacklist=["c"])
    await bench.feed.seeds("a/1", "a/2", "b/1", "c/1")
    assert await come(east) == ["a/1", "b/1"]
    north = worker_of(bench, "north")
    assert await come(north) == []
    await bench.tend()
    assert await come(north) == ["a/2"]
    await bench.rule()
    assert await come(north) == ["c/1"]


@pytest.mark.usefixtures("still")
async def test_a_refusal_is_the_group_s_own(by_group: tuple[Bench, Worker, Worker]) -> None:
    """A site that bans one group's address may still get requests from another."""
    bench, east, west = by_group
    await bench.rule(WIDE_OPEN)
    await bench.feed.seeds("a/1", "a/2", "a/3")
    (lease,) = await east.lease(1)
    refused = SiteReaction(Reaction.REFUSAL, wait_ms=60_000)
    await east.exchange(sent=[SentRequest(lease.token, 0, received=True, heard=refused)])
    assert await due_ms(east) > 59_000
    assert await come(west) == ["a/2", "a/3"]
    await east.requeue(lease, sent_ms=0)
    assert await come(west) == ["a/1"]


async def test_who_names_no_group_gets_nothing(by_group: tuple[Bench, Worker, Worker]) -> None:
    """Grants nothing to a process without a group; it may settle all the same."""
    bench, east, _ = by_group
    await bench.feed.seeds("a/1")
    assert await come(bench.worker) == []
    assert await come(east) == ["a/1"]


@pytest.mark.usefixtures("still")
async def test_the_dead_of_one_group_leave_work_for_the_other(
    by_group: tuple[Bench, Worker, Worker],
) -> None:
    """Leases of a dead worker go to any group, and its send counts for its own."""
    bench, east, west = by_group
    await bench.feed.seeds("a/1")
    (lease,) = await east.lease(1)
    assert await bench.blame(east.name, "") == 1
    assert await come(west) == [url_of(lease)]
    await bench.feed.seeds("a/2")
    assert await due_ms(worker_of(bench, "east", number=2)) > 9_000


@pytest.mark.usefixtures("still")
async def test_a_group_that_is_gone_is_forgotten(by_group: tuple[Bench, Worker, Worker]) -> None:
    """An hour after its last worker asked, its view goes; it comes back with the next one."""
    bench, east, west = by_group
    await bench.feed.seeds("a/1", "a/2", "a/3")
    assert await come(west) == ["a/1"]
    await bench.advance(3_000_000)
    assert await come(east) == ["a/2"]
    await bench.advance(1_000_000)
    await bench.tend()
    assert await bench.redis.hkeys("{cs0}views:link") == [b"link@east"]
    assert not await bench.redis.keys("*[wrpz]:link@west")
    assert await come(west) == []
    await bench.tend()
    assert await come(west) == ["a/3"]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("scope", ["", "type", "group", "type group"])
async def test_another_scope_begins_with_used_up_allowances(bench: Bench, scope: str) -> None:
    """Any change of the scope grants no domain twice, and loses nothing."""
    await bench.rule(SLOW)
    await bench.frontier.rules.agree("type" if scope != "type" else "group")
    await bench.feed.seeds("a/1", "a/2", "b/1")
    worker = worker_of(bench, "east")
    await come(worker)
    await bench.tend()
    await come(worker)
    await bench.frontier.rules.agree(scope, by_force=True)
    assert await come(worker) == []
    await bench.tend()
    assert await come(worker) == []
    await bench.advance(11_000)
    left = await come(worker)
    await bench.advance(10_000)
    left += await come(worker)
    state = await bench.state()
    assert (state.done, state.queued, "a/2" in left) == (3, 0, True)
    if "group" in scope:
        assert not await bench.redis.keys("{cs0}[wrp]:link"), "a view that nobody asks for"


@pytest.mark.parametrize("scope", ["", "type", "type group"])
async def test_the_scope_changes_before_any_group_has_asked(bench: Bench, scope: str) -> None:
    """Entries for groups that have not come yet are leased by callers under the new scope."""
    await bench.frontier.rules.agree("group", by_force=True)
    await bench.feed.seeds("a/1")
    await bench.frontier.rules.agree(scope, by_force=True)
    worker = worker_of(bench, "east")
    await worker.exchange()
    await bench.tend()
    await bench.advance(3_000)
    assert await come(worker) == ["a/1"]


@pytest.mark.usefixtures("still")
async def test_a_person_sees_whose_limits_are_told(by_group: tuple[Bench, Worker, Worker]) -> None:
    """The state of a domain is that of the view that was asked for."""
    bench, east, west = by_group
    await bench.feed.seeds("a/1", "a/2")
    assert await come(east) == ["a/1"]
    assert await come(west) == ["a/2"]
    await bench.advance(2_000)
    inspector = bench.frontier.inspector
    report = await inspector.domain("a", "link@east")
    assert report.kept_for == "link@east"
    assert 7_000 < report.next_ms <= 8_000
    assert (await inspector.domain("a", "link@north")).next_ms == 0
    assert (await inspector.domain("a")).kept_for in {"link@east", "link@west"}
