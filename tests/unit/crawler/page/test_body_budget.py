"""The memory budget of bodies: together they stay below a bound, and each has its turn."""

from __future__ import annotations

import asyncio
import random

import pytest

from crawling.page.body_budget import LARGE, BodyBudget
from crawling.page.page import Page, Phase
from support.pages import page_at

MIB = 1 << 20
LARGEST = 16 * MIB
CHUNK = 64 * 1024
LIMIT = LARGEST + 2 * LARGEST
"""Bytes that all share, and the bytes that the two oldest may take beyond that."""


def full_size() -> BodyBudget:
    """Limits of a worker with default settings."""
    return BodyBudget(LARGEST)


def pages(count: int) -> list[Page]:
    """Pages just granted, that many."""
    return [page_at(f"http://a.example/{number}") for number in range(count)]


def test_small_bodies_are_not_weighed() -> None:
    """Usual pages cost nothing, and never wait."""
    budget = full_size()
    for page in pages(1000):
        budget.weigh(page, LARGE)
        assert budget.may_grow(page)
        budget.drop(page)
    assert budget.total == 0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_in_weighs_no_more_than_it_may_and_all_of_it_arrives(seed: int) -> None:
    """Eighty bodies of up to 16 MiB, in chunks that come in any order, slow ones among them."""
    chance = random.Random(seed)
    budget = full_size()
    sizes = {page: chance.randrange(LARGE, LARGEST, CHUNK) for page in pages(80)}
    speed = {page: chance.choice([0.02, 1, 1]) for page in sizes}
    here, paused, most = dict.fromkeys(sizes, LARGE), set[Page](), 0
    while here:
        coming = [page for page in here if page not in paused]
        assert coming, "nothing goes on"
        page = chance.choices(coming, [speed[each] for each in coming])[0]
        here[page] += CHUNK
        budget.weigh(page, here[page])
        most = max(most, budget.total)
        if here[page] >= sizes[page]:
            del here[page]
            budget.drop(page)
        elif not budget.may_grow(page):
            paused.add(page)
            budget.wait(page, lambda page=page: paused.discard(page))  # type: ignore[misc]
    assert most <= LIMIT + len(sizes) * CHUNK
    assert budget.total == 0


def test_the_eldest_go_on_when_there_is_no_room() -> None:
    """Two of them, then the next two."""
    budget = full_size()
    first, second, third, fourth = pages(4)
    for page in (first, second, third, fourth):
        budget.weigh(page, LARGEST)
    assert [budget.may_grow(each) for each in (first, second, third, fourth)] == [
        True, True, False, False,
    ]  # fmt: skip
    gone_on: list[Page] = []
    for page in (third, fourth):
        budget.wait(page, lambda page=page: gone_on.append(page))  # type: ignore[misc]
    budget.weigh(second, 2 * LARGEST)
    budget.drop(first)
    assert gone_on == [third]
    budget.drop(second)
    assert gone_on == [third, fourth]


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.STALE, Phase.SPILLING])
def test_a_page_that_is_over_gives_its_room_back(phase: Phase) -> None:
    """However it ended; waiting pages then go on."""
    budget = full_size()
    held, waits = pages(2)
    budget.weigh(held, 5 * LARGEST)
    gone_on: list[Page] = []
    budget.wait(waits, lambda: gone_on.append(waits))
    held.phase = phase
    budget.drop(held)
    assert gone_on == [waits]
    budget.drop(held)
    assert budget.total == 0


async def test_bodies_are_decompressed_one_after_the_other_where_each_fills_the_room() -> None:
    """Many small responses that become large ones are not all decompressed at once."""
    budget = full_size()
    most = 0

    async def decompress(page: Page) -> None:
        nonlocal most
        await budget.turn(page)
        budget.weigh(page, LARGEST)
        most = max(most, budget.total)
        await asyncio.sleep(0.001)
        budget.drop(page)

    async with asyncio.timeout(20):
        await asyncio.gather(*map(decompress, pages(60)))
    assert most <= LIMIT
    assert budget.total == 0


async def test_a_page_that_waits_to_be_decompressed_goes_on_when_it_is_in_other_hands() -> None:
    """No page waits without end."""
    budget = full_size()
    *oldest, waits = pages(3)
    for page in oldest:
        budget.weigh(page, 3 * LARGEST)
    turn = asyncio.ensure_future(budget.turn(waits))
    await asyncio.sleep(0)
    assert not turn.done()
    waits.phase = Phase.STALE
    budget.drop(waits)
    await asyncio.wait_for(turn, 5)
