"""Refused links are answered, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from crawlstream.boot.clients import redis_client
from crawlstream.boot.settings import load_settings
from crawlstream.model.effects import Seed
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.proxy import FaultyProxy
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from support.frontier.bench import KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

REFUSED = {1: "domain_max_pages"}


def seeds(bench: Bench, count: int = 2) -> list[Seed]:
    """Seeds of which the frontier admits the first."""
    return [bench.feed.seed(f"a/{number}", domain_max_pages=1) for number in range(count)]


@asynccontextmanager
async def proxy_of(server: RunningServer) -> AsyncIterator[FaultyProxy]:
    """A way to Redis that can be disturbed."""
    proxy = FaultyProxy(free_block(1), server.port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


async def test_a_refusal_survives_a_lost_answer(bench: Bench, redis_server: RunningServer) -> None:
    """The product's client repeats a call whose answer was lost, and receives the refusals."""
    batch = bench.feed.batch(*seeds(bench))
    async with proxy_of(redis_server) as proxy:
        settings = load_settings(redis_host="127.0.0.1", redis_port=proxy.port)
        async with redis_client(settings) as redis:
            frontier = Frontier(redis, KEYS)
            await frontier.intake.apply(replace(batch, start=0, next=0, records=()))
            proxy.lose_reply()
            answer = await frontier.intake.apply(batch)
    assert (answer.applied, dict(answer.refused)) == (0, REFUSED), "the reply was not lost"
    assert (await bench.state()).admitted == 1


async def test_a_refusal_is_answered_until_it_was_told(bench: Bench) -> None:
    """Every call that begins before it gets the refusal; one that begins behind it confirms it."""
    batch = bench.feed.batch(*seeds(bench))
    position = bench.frontier.positions
    for _ in range(3):
        assert dict((await bench.frontier.intake.apply(batch)).refused) == REFUSED
    assert await position.begin("topic", 0, 2) == 1
    await bench.frontier.intake.apply(replace(batch, start=2, records=()))
    assert await position.begin("topic", 0, 2) == 2
    assert not (await bench.frontier.intake.apply(batch)).refused
    assert not await bench.redis.exists(KEYS.refused())


async def test_who_reads_again_from_a_refusal_goes_on_with_what_follows(bench: Bench) -> None:
    """The next kafka-monitor begins at the unconfirmed record, and puts it with younger records."""
    await bench.feed.put(*seeds(bench))
    younger = seeds(bench)
    later = replace(bench.feed.batch(*younger), start=1)
    answer = await bench.frontier.intake.apply(later)
    assert (answer.applied, dict(answer.refused)) == (2, dict.fromkeys((1, 2, 3), REFUSED[1]))
    state = await bench.state()
    assert (state.admitted, dict(state.filtered_by_reason)) == (1, {"domain_max_pages": 3})


@pytest.mark.parametrize("topic_id", ["topic", "another"])
async def test_refusals_of_partitions_are_kept_apart(bench: Bench, topic_id: str) -> None:
    """Confirmations of one partition mean nothing for another one, nor for another topic's."""
    await bench.feed.put(*seeds(bench))
    elsewhere = await bench.another_feed(1 if topic_id == "topic" else 0, topic_id)
    await elsewhere.seeds("b/1")
    batch = replace(bench.feed.batch(), start=0, records=())
    assert dict((await bench.frontier.intake.apply(batch)).refused) == REFUSED
