"""Readers while a partition is away: they name it, and guess nothing of it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from crawlstream.errors import RedisUnavailable
from crawlstream.model.inspection import PagePlace
from crawlstream.model.request import ActionRequest
from crawlstream.wire import replies, views
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.crawls import read_crawls
from crawlstream_cli.machine.status import _ask
from crawlstream_frontier.partitions.frontiers import Frontiers
from support.frontier.bench import CRAWL
from support.partitions.bench import DividedBench, open_divided_bench
from support.partitions.servers.divided import addresses, divided_settings


@pytest.fixture
async def bench(frontiers: Frontiers) -> DividedBench:
    """A crawl with two pages in each of three partitions."""
    bench = await open_divided_bench(frontiers)
    await bench.seeds(*(f"{domain}/{path}" for domain in bench.domains() for path in "ab"))
    return bench


async def test_figures_are_those_of_who_answers(
    bench: DividedBench, three: Sequence[RunningServer]
) -> None:
    """A crawl, all crawls and the counters, on the way to people and programs."""
    queries = bench.frontiers.queries
    whole = await bench.state()
    assert (whole.queued, whole.missing_partitions) == (6, ())
    assert "missing_partitions" not in views.crawl(whole)
    assert "missing_partitions" not in views.frontier(await queries.state())
    three[1].kill()
    crawl = await queries.crawl_state(CRAWL)
    assert crawl is not None
    answering = {bench.domains()[0], bench.domains()[2]}
    assert {domain.domain for domain in crawl.domains} == answering
    states = await read_crawls(divided_settings(REDIS_HOSTS=addresses(three)))
    counters = await queries.state()
    assert (counters.queued, counters.missing_partitions) == (4, (1,))
    for told in (crawl, *states, *await queries.with_lanes(states, ())):
        assert (told.queued, told.missing_partitions) == (4, (1,))
    assert views.crawl(crawl)["missing_partitions"] == (1,)
    assert views.frontier(counters)["missing_partitions"] == (1,)
    request = ActionRequest(name="info", uuid="u", **asdict(CRAWL))
    for body in (
        replies.info_crawl(request, crawl, server_time=0),
        replies.info_app(request, states, server_time=0),
    ):
        reply = json.loads(body)
        assert (reply["total_pending"], reply["missing_partitions"]) == (4, [1])
    three[1].start()
    assert (await bench.state()).queued == 6


async def test_status_names_a_partition_and_its_server(
    bench: DividedBench, three: Sequence[RunningServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever is away, also the one with what is the cluster's."""
    monkeypatch.setenv("REDIS_HOSTS", addresses(three))
    for away in (0, 2):
        three[away].kill()
        told = await _ask()
        assert told is not None
        assert told.counters.queued == 4
        (warning,) = told.warnings
        named = f"partition {away} (127.0.0.1:{three[away].port}) does not answer"
        assert warning.startswith(named)
        three[away].start()
    told = await _ask()
    assert told is not None
    assert (told.counters.queued, told.warnings) == ((await bench.state()).queued, [])


async def test_a_url_is_asked_of_its_domains_partition(
    bench: DividedBench, three: Sequence[RunningServer]
) -> None:
    """Names the partition of a URL that is unavailable; all other URLs are answered."""
    inspector, domains = bench.frontiers.inspector, bench.domains()
    three[2].kill()
    report = await inspector.url(f"http://{domains[0]}/a", await inspector.crawls(5))
    assert [page.where for page in report.crawls] == [PagePlace.QUEUED]
    named = rf"partition 2 \(127.0.0.1:{three[2].port}\) does not answer"
    with pytest.raises(RedisUnavailable, match=named):
        await inspector.url(f"http://{domains[2]}/a", [CRAWL])
    with pytest.raises(RedisUnavailable, match=named):
        await inspector.domain(domains[2])


async def test_a_partition_that_hangs_holds_nobody_up(
    bench: DividedBench, three: Sequence[RunningServer]
) -> None:
    """It is given two seconds, not the ten that a single Redis would have."""
    three[0].signal(signal.SIGSTOP)
    begun = time.monotonic()
    try:
        counters = await bench.frontiers.queries.state()
    finally:
        three[0].signal(signal.SIGCONT)
    assert (counters.queued, counters.missing_partitions) == (4, (0,))
    assert time.monotonic() - begun < 8


async def test_a_partition_that_lost_its_data_is_missing(bench: DividedBench) -> None:
    """It answers, but nothing that it says would be true."""
    await bench.benches[1].redis.flushall()
    counters = await bench.frontiers.queries.state()
    assert (counters.queued, counters.missing_partitions) == (4, (1,))
