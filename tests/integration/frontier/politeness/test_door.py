"""The door of scrapes: they get their share of a site's rule at once, and crawls keep theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil
from random import Random
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.scrapes.door import Admission, DoorAnswer, DoorBounds, ScrapeTicket
from support.frontier.bench import CRAWL, Bench
from support.frontier.lua import planted

pytest_plugins = ["support.frontier.fixtures"]

SITE = "a.example"
SCRAPES = CrawlKey("link", "agents", "scrape")
SECOND = ThrottleRule(hits=60, window_s=60, moderated=True, concurrency=10_000)
"""Allows one request per second."""
BOUNDS = DoorBounds(share=0.5, latest_s=30, forgotten_s=120, most=1000)


async def ask(bench: Bench, n: int = 0, client: str = "me", **bounds: Any) -> DoorAnswer:
    """Ask for one scrape of the site."""
    told = replace(BOUNDS, **bounds)
    return await bench.frontier.door.enter(ScrapeTicket(client, SITE, f"id{n}"), told)


async def starts(bench: Bench, count: int, **bounds: Any) -> Sequence[float]:
    """Seconds until the starts of scrapes that are asked for at once."""
    return [(await ask(bench, n, **bounds)).wait_s for n in range(count)]


@pytest.mark.usefixtures("still")
async def test_a_free_site_is_scraped_at_its_whole_rate_at_once(bench: Bench) -> None:
    """A rule that allows bursts allows them here; a moderated one has its spacing."""
    await bench.rule(SECOND)
    assert await starts(bench, 4) == [0, 1, 2, 3]
    await bench.rule(replace(SECOND, hits=3, moderated=False))
    await bench.advance(300_000)
    assert await starts(bench, 4) == [0, 0, 0, 20]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("share", "spacing"), [(0.5, 2), (0.25, 4), (1.0, 1)])
async def test_a_wanted_site_is_scraped_at_its_share(
    bench: Bench, share: float, spacing: float
) -> None:
    """While a crawl waits, scrapes are evenly spaced, also if the rule allows bursts."""
    await bench.rule(SECOND)
    await bench.feed.seeds(f"{SITE}/1")
    assert await starts(bench, 3, share=share) == [0, spacing, 2 * spacing]
    await bench.rule(replace(SECOND, moderated=False))
    await bench.advance(300_000)
    assert await starts(bench, 3, share=share) == [0, spacing, 2 * spacing]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(10))
async def test_the_door_does_as_a_naive_simulator(bench: Bench, seed: int) -> None:
    """Starts scrapes as a naive simulator does: within the share, and at once on a free site."""
    random = Random(seed)
    await bench.rule(SECOND)
    share = random.choice([0.05, 0.3, 0.5, 1.0])
    now = due = 0
    is_wanted, begun = False, list[int]()
    for n in range(60):
        passed = random.choice([0, 0, 300, 1_000, 2_500, 30_000])
        await bench.advance(passed)
        now += passed
        if random.random() < 0.2:
            is_wanted = not is_wanted
            await (bench.feed.seeds(f"{SITE}/{n}") if is_wanted else bench.feed.say("stop"))
        latest_s = random.choice([0, 3, 30])
        answer = await ask(bench, n, share=share, latest_s=latest_s)
        start = max(now, due)
        assert (answer.admission == Admission.OK) == (start - now <= latest_s * 1000)
        late = 0 if answer.admission == Admission.OK else latest_s * 1000
        assert round(answer.wait_s * 1000) == start - now - late
        if answer.admission == Admission.OK:
            due = start + ceil(1000 / (share if is_wanted else 1))
            begun.append(start)
    assert all(other - one >= 1000 for one, other in pairwise(begun))
    assert len(begun) > 5


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("share", [0.25, 0.5])
async def test_a_crawl_keeps_its_part_of_the_grants(bench: Bench, share: float) -> None:
    """Leaves a crawl its part of the grants, however many scrapes are requested."""
    await bench.rule(SECOND)
    await bench.feed.seeds(*(f"{SITE}/{n}" for n in range(200)), priority=1)
    granted = {CRAWL: 0, SCRAPES: 0}
    for n in range(1000):
        if (await ask(bench, n, share=share, latest_s=0)).admission == Admission.OK:
            await bench.feed.seeds(f"{SITE}/s{n}", crawl=SCRAPES, priority=100)
        for lease in await bench.worker.lease(5):
            granted[lease.crawl] += 1
            await bench.worker.sent(lease)
            await bench.worker.settle(lease)
        await bench.advance(100)
    total = sum(granted.values())
    assert total >= 95
    assert granted[CRAWL] >= (1 - share) * total - 2
    assert granted[SCRAPES] >= 0.7 * share * total


@pytest.mark.usefixtures("still")
async def test_a_refused_scrape_takes_nothing(bench: Bench) -> None:
    """The answer says when the same call would be admitted."""
    await bench.rule(SECOND)
    await bench.feed.seeds(f"{SITE}/1")
    assert await starts(bench, 2, latest_s=3) == [0, 2]
    refused = [await ask(bench, n, latest_s=3) for n in range(5, 9)]
    assert {answer.admission for answer in refused} == {Admission.BUSY}
    assert {answer.wait_s for answer in refused} == {1}
    await bench.advance(1_000)
    admitted = await ask(bench, 9, latest_s=3)
    assert (admitted.admission, admitted.wait_s) == (Admission.OK, 3)


@pytest.mark.usefixtures("still")
async def test_a_client_has_a_bound_of_its_own(bench: Bench) -> None:
    """Scrapes count until their end is reported, or until they are forgotten."""
    await bench.rule()
    told = [(await ask(bench, n, most=2)).admission for n in range(3)]
    assert told == [Admission.OK, Admission.OK, Admission.TOO_MANY]
    assert (await ask(bench, 3, client="other", most=2)).admission == Admission.OK
    await bench.frontier.door.leave(["id0"])
    assert (await ask(bench, 4, most=2)).admission == Admission.OK
    ticket = ScrapeTicket("me", SITE, "id5")
    door, bounds = bench.frontier.door, replace(BOUNDS, most=2)
    assert (await door.enter(ticket, bounds, ["id4"])).admission == Admission.OK
    assert (await ask(bench, 6, most=2)).admission == Admission.TOO_MANY
    await bench.advance(120_001)
    assert (await ask(bench, 7, most=2)).admission == Admission.OK


@pytest.mark.usefixtures("still")
async def test_a_scrape_that_has_ended_leaves_nothing(bench: Bench) -> None:
    """Its end may be reported by any process, or never: each key has a lifetime."""
    await bench.rule()
    for n in range(3):
        await ask(bench, n)
    tag = bench.frontier.scripts.keys.tag
    keys = [f"{tag}scrape:id{n}" for n in range(3)]
    assert all([0 < await bench.redis.pttl(key) <= 120_000 for key in keys])
    await bench.frontier.door.leave(["unknown", "id0", "id2", "id0"])
    assert await bench.redis.exists(*keys) == await bench.redis.exists(keys[1]) == 1
    for name in (f"scrapes_at:{SITE}", "scrapes_of:me"):
        assert await bench.redis.zrange(f"{tag}{name}", 0, -1) == [b"id1"]


@pytest.mark.usefixtures("still")
async def test_a_slow_site_keeps_places_for_crawls(bench: Bench) -> None:
    """Leaves crawls their part of the concurrency of a slow site."""
    await bench.rule(ThrottleRule(hits=1000, window_s=1, moderated=False, concurrency=4))
    await bench.feed.seeds(f"{SITE}/1")
    told = [(await ask(bench, n)).admission for n in range(3)]
    assert told == [Admission.OK, Admission.OK, Admission.BUSY]
    await bench.feed.say("stop")
    assert (await ask(bench, 4)).admission == Admission.OK


@pytest.mark.usefixtures("still")
async def test_other_scrapes_and_paused_crawls_do_not_wait(bench: Bench) -> None:
    """Lets scrapes wait only for pages that they would overtake."""
    await bench.rule(SECOND)
    await bench.feed.seeds(f"{SITE}/s", crawl=SCRAPES, priority=100)
    await bench.feed.seeds(f"{SITE}/1", f"{SITE}/2")
    assert await starts(bench, 2) == [0, 2]
    await bench.feed.say("pause")
    await bench.advance(60_000)
    assert await starts(bench, 2) == [0, 1]
    await bench.feed.say("resume")
    await bench.advance(60_000)
    assert await starts(bench, 2) == [0, 2]


@pytest.mark.usefixtures("still")
async def test_a_start_follows_the_rule_and_the_requests_of_others(bench: Bench) -> None:
    """The door knows the requests of crawls; the seed may wait in its queue meanwhile."""
    await bench.rule(SECOND)
    await bench.feed.seeds(f"{SITE}/1", f"{SITE}/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.sent(lease)
    answer = await ask(bench)
    assert (answer.wait_s, answer.not_before) == (1, 0)
    second = await ask(bench, 2)
    assert second.wait_s == 3
    assert second.not_before == pytest.approx(second.earliest, abs=0.01)


async def test_a_blocked_site_and_a_frontier_without_rules_admit_nothing(unruled: Bench) -> None:
    """An operator has blocked it, or no rule is known yet."""
    assert (await ask(unruled)).admission == Admission.UNKNOWN
    await unruled.rule(blacklist=[SITE])
    assert (await ask(unruled)).admission == Admission.BLOCKED


async def test_the_keys_of_scrapes_expire(bench: Bench) -> None:
    """Deletes all keys of a scrape whose process has died."""
    await bench.rule(SECOND)
    await ask(bench, forgotten_s=1)
    keys = [key async for key in bench.redis.scan_iter(match="*scrapes*")]
    assert len(keys) == 3
    assert all([0 < await bench.redis.pttl(key) <= 2_000 for key in keys])


@pytest.mark.usefixtures("still")
async def test_a_door_that_admits_everything_overruns_no_rule(
    bench: Bench,
) -> None:
    """The frontier alone applies the rule: of fifty scrapes it grants one per second."""
    await bench.rule(SECOND)
    with planted("if start_ms > latest_ms then", "if false then"):
        for n in range(50):
            assert (await ask(bench, n, latest_s=0)).admission == Admission.OK
            await bench.feed.seeds(f"{SITE}/{n}", crawl=SCRAPES, priority=100)
    for _ in range(5):
        assert len(await bench.worker.lease(50)) == 1
        for lease in list(bench.worker.leases.values()):
            await bench.worker.sent(lease)
            await bench.worker.settle(lease)
        await bench.advance(1_000)
