"""Late calls change nothing, lost chunks are reported; a test would find it otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from crawlstream.errors import RedisUnavailable
from support.frontier.bench import KEYS, Bench
from support.frontier.lua import planted

pytest_plugins = ["support.frontier.fixtures"]

PAGES = 40
AGAIN_MS = 2_000
"""Time after which an order without an answer is given again."""
Call = tuple[Any, ...]


async def carry(bench: Bench) -> None:
    """Shelve and bring back until there is nothing to do."""
    while not (await bench.frontier.stocking.step()).is_idle:
        pass


async def fill(bench: Bench) -> None:
    """Let 40 pages wait, most of them on the shelf."""
    bench.shelve(8)
    await carry(bench)
    for at in range(0, PAGES, 4):
        await bench.feed.seeds(*(f"a/{n}" for n in range(at, at + 4)))
        await carry(bench)


async def held_up(bench: Bench) -> Call:
    """Call that brings a chunk back, by a redis-monitor that was frozen before it could."""
    calls: list[Call] = []
    run = bench.frontier.scripts.run

    async def freezing(operation: str, *args: Any) -> Any:
        if operation == "restocked":
            calls.append((operation, *args))
            raise RedisUnavailable
        return await run(operation, *args)

    await fill(bench)
    await bench.worker.lease(8)
    await carry(bench)
    await bench.worker.lease(8)
    bench.frontier.scripts.run = freezing  # type: ignore[method-assign]
    with contextlib.suppress(RedisUnavailable):
        await carry(bench)
    bench.frontier.scripts.run = run  # type: ignore[method-assign]
    assert calls
    return calls[0]


async def after_another(bench: Bench) -> None:
    """It is refused when another one has brought the chunk."""
    late = await held_up(bench)
    await bench.advance(AGAIN_MS)
    await carry(bench)
    assert await bench.frontier.scripts.run(*late) == 0


async def after_a_stop(bench: Bench) -> None:
    """It is refused when the run is over."""
    late = await held_up(bench)
    await bench.feed.say("stop")
    assert await bench.frontier.scripts.run(*late) == 0


async def after_a_loss(bench: Bench) -> None:
    """Its pages fail with a reason, and the ledger adds up."""
    await fill(bench)
    shelved = (await bench.state()).shelved
    await bench.redis.delete(*await bench.redis.keys(KEYS.tag + "chunk:*"))
    while (await bench.state()).queued:
        await bench.worker.settle(*await bench.worker.lease(8))
        await carry(bench)
    assert (await bench.state()).failed_by_reason == {"shelf_lost": shelved}


async def test_a_chunk_is_gone(bench: Bench) -> None:
    """A chunk that is nowhere any more is reported as lost."""
    await after_a_loss(bench)


async def test_another_one_has_brought_the_chunk(bench: Bench) -> None:
    """A chunk comes once, in its turn."""
    await after_another(bench)


async def test_the_run_was_stopped(bench: Bench) -> None:
    """Restores no page into a run that was stopped."""
    await after_a_stop(bench)


class Bug(NamedTuple):
    """Text in exactly one place of the Lua, its replacement, and the test that finds it."""

    right: str
    wrong: str
    scenario: Callable[[Bench], Awaitable[None]]


BUGS = {
    "a chunk comes back out of its turn": Bug(
        right="if first ~= id or crawl_of(c)",
        wrong="if crawl_of(c)",
        scenario=after_another,
    ),
    "a chunk comes back to a run that is over": Bug(
        right="if first ~= id or crawl_of(c).state ~= 'running' or",
        wrong="if first ~= id or",
        scenario=after_a_stop,
    ),
    "lost chunks are nowhere": Bug(
        right="count(c, 'failed', amount)\n  count(c, 'f:shelf_lost', amount)",
        wrong="count(c, 'f:shelf_lost', amount)",
        scenario=after_a_loss,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_it_would_be_found(bug: Bug, bench: Bench) -> None:
    """Fails the scenario with the bug."""
    with planted(bug.right, bug.wrong), pytest.raises(AssertionError):
        await bug.scenario(bench)
    await bench.redis.flushdb()
