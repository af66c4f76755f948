"""Links that a worker remembers do not travel again; what it believes is never a page lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from crawling.links.encoded import EncodedLinks
from crawlstream.errors import RedisUnavailable
from crawlstream.model.effects import FOUND, FOUND_AGAIN, FOUND_EARLY, Links, Outcome, Settle
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.url import fingerprint
from crawlstream.wire.stored import LinkEncoder
from crawlstream_frontier.worker.link_cache import LinkCache
from support.frontier.bench import Bench, links

pytest_plugins = ["support.frontier.fixtures"]

NAVIGATION = range(200)


async def bytes_heard(redis: Redis) -> int:
    """Bytes that Redis has received from all its clients."""
    return int((await redis.info("stats"))["total_net_input_bytes"])


async def test_links_that_were_put_before_stay_with_the_worker(bench: Bench) -> None:
    """The second page with the same navigation costs a tenth of the first, and counts alike."""
    await bench.feed.seeds("b/1", "b/2")
    first, second = await bench.worker.lease(2)
    navigation = [links("a", NAVIGATION)]
    before = await bytes_heard(bench.redis)
    await bench.worker.settle(first, links=navigation)
    between = await bytes_heard(bench.redis)
    await bench.worker.settle(second, links=navigation)
    after = await bytes_heard(bench.redis)
    assert after - between < (between - before) / 10
    state = await bench.state()
    assert (state.admitted, state.filtered_by_reason) == (202, {"duplicate": 200})


async def test_what_a_cap_refused_is_not_taken_for_known(bench: Bench) -> None:
    """It enters when another page leads to it and there is room."""
    bench.limit(most_queued_of_crawl=4)
    await bench.tend()
    await bench.feed.seeds("a/1", "a/2")
    first, second = await bench.worker.lease(2)
    await bench.worker.settle(first, links=[links("a", range(11, 16))])
    assert (await bench.state()).filtered_by_reason == {"crawl_full": 1}
    assert len(await bench.worker.lease(4)) == 4
    await bench.worker.settle(second, links=[links("a", [15])])
    assert (await bench.state()).admitted == 7


async def test_a_stopped_crawl_begins_with_nothing_known(bench: Bench) -> None:
    """Links put before the stop may be crawled again."""
    await bench.feed.seeds("a/1")
    await bench.worker.settle(*await bench.worker.lease(), links=[links("a", [11])])
    await bench.feed.say("stop")
    await bench.feed.seeds("a/1")
    await bench.worker.settle(*await bench.worker.lease(), links=[links("a", [11])])
    assert await bench.worker.urls() == ["a/11"]


class Counted(LinkEncoder):
    """Knows what it has encoded."""

    def __init__(self, depth: int, parent: bytes) -> None:
        super().__init__(depth, parent)
        self.links: list[str] = []

    def encode(self, link: str) -> bytes:
        """As usual."""
        self.links.append(link)
        return super().encode(link)


async def test_only_what_travels_is_encoded(bench: Bench) -> None:
    """A worker does not encode the links that it leaves out, until Redis asks for all of them."""
    await bench.feed.seeds("b/1", "b/2", "b/3")
    leases = await bench.worker.lease(3)
    encoders = [Counted(1, lease.entry.url.encode()) for lease in leases]
    urls = [f"http://a/{number}" for number in range(10, 16)]
    pages = [urls[:3], urls[:4], urls]
    for lease, encoder, found in zip(leases, encoders, pages, strict=True):
        group = Links(domain="a", priority=1, entries=EncodedLinks(found, encoder))
        group.fingerprints.extend(map(fingerprint, found))
        if lease is leases[2]:
            await bench.pretend_restart()
        await bench.worker.settle(lease, links=[group])
    assert [encoder.links for encoder in encoders] == [urls[:3], urls[3:4], urls[4:] + urls]
    state = await bench.state()
    assert (state.done, state.queued) == (3, len(urls))


async def test_what_redis_lost_with_its_latest_second_is_put_again(bench: Bench) -> None:
    """A worker believes to know a link; Redis is back without it: the link is not lost."""
    await bench.rule(ThrottleRule(hits=1_000, window_s=0.001, moderated=False, concurrency=1_000))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    first, second, third = await bench.worker.lease(3)
    keys = await bench.redis.keys("*")
    kept = {key: await bench.redis.dump(key) for key in keys}
    shared = [links("a", [11, 12])]
    await bench.worker.settle(first, links=shared)
    await bench.worker.settle(second, links=shared)
    await bench.redis.flushall()
    for key, dump in kept.items():
        await bench.redis.restore(key, 0, dump)
    await bench.pretend_restart()
    await bench.worker.settle(third, links=shared)
    state = await bench.state()
    assert (state.queued, state.held, state.done) == (2, 2, 1)


async def test_what_was_granted_is_heard_of_after_a_repetition_that_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis asks for links again, and is gone: the next call brings the leases of the first."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(6)))
    (lease,) = await bench.worker.lease(1)
    session, run = bench.worker.session, bench.worker.session._scripts.run
    exchanges = 0

    async def run_or_fail(operation: str, *args: Any) -> object:
        nonlocal exchanges
        exchanges += operation == "exchange"
        if operation == "exchange" and exchanges == 2:
            raise RedisUnavailable("cut")
        answer = await run(operation, *args)
        if operation == "put" and not exchanges:
            await bench.pretend_restart()
        await bench.advance(3_000)
        return answer

    monkeypatch.setattr(session._scripts, "run", run_or_fail)
    settle = Settle(
        token=lease.token, outcome=Outcome.DONE, reason="2xx", links=[links("b", range(1_500))]
    )
    with pytest.raises(RedisUnavailable):
        await bench.worker.exchange(settles=[settle], want=2)
    assert not await session.reconcile([lease.token])
    heard = (await bench.worker.exchange(settles=[settle], want=2)).leases
    held = {key.decode() for key in await bench.redis.hkeys("{cs0}h:w1")} - {"!", "@"}
    assert held == {one.token for one in heard}
    state = await bench.state()
    assert (len(heard), state.held, state.done, state.admitted) == (2, 2, 1, 1_506)


def test_the_oldest_is_forgotten() -> None:
    """Between one and two generations are known, of one crawl and one epoch of Redis."""
    cache = LinkCache(10)
    for number in range(100):
        cache.learn(1, b"1", [str(number)])
    group = links("a", range(100))
    group = replace(group, fingerprints=[str(number) for number in range(100)])
    (new,), left_out = cache.new_of(b"1", [group])
    assert 10 <= left_out <= 20
    assert new.fingerprints == [str(number) for number in range(100 - left_out)]
    assert new.entries == group.entries[: 100 - left_out]
    assert cache.new_of(b"2", [group]) == ([group], 0)
    cache.enter(2)
    assert cache.new_of(b"1", [group]) == ([group], 0)


def test_links_of_a_crawl_with_a_score_are_counted() -> None:
    """A link is sent again when it is found for the third time, and never after that."""
    cache = LinkCache()
    cache.learn(1, b"1", links("a", range(2)).fingerprints)
    one, both = links("a", [1], linked=FOUND), links("a", range(2), linked=FOUND)
    assert cache.found_again(b"1", [links("a", [1])]) == []
    assert cache.found_again(b"1", [one]) == []
    (again,) = cache.found_again(b"1", [both])
    assert (again.fingerprints, again.linked) == (one.fingerprints, FOUND_AGAIN)
    (again,) = cache.found_again(b"1", [both])
    assert again.fingerprints == links("a", [0]).fingerprints
    assert cache.found_again(b"1", [both]) == []
    assert cache.found_again(b"2", [both]) == []


def test_links_of_a_promoted_page_are_not_remembered() -> None:
    """Another page may have them at a smaller depth; then they are sent again."""
    cache = LinkCache()
    early, usual = links("a", [1], linked=FOUND_EARLY), links("a", [2], linked=FOUND)
    cache.learn_links(1, b"1", [early, usual])
    assert cache.new_of(b"1", [early, usual]) == ([early], 1)


def test_a_link_is_sent_again_for_each_trusted_domain_that_links() -> None:
    """Sends one link to each domain, once; none to its own domain, or from one without trust."""
    cache, new = LinkCache(), list[Links]()
    cache.learn(1, b"1", links("a", range(3)).fingerprints)
    first = [links("a", range(3), standing="5 10 10"), links("a", [2], standing="5 10 10")]
    (again,) = cache.sent_again(b"1", first, new)
    assert (again.fingerprints, again.standing) == (links("a", [0]).fingerprints, "5 10 10")
    assert cache.sent_again(b"1", first, first[1:]) == []
    cache.learn_links(1, b"1", [again])
    assert cache.sent_again(b"1", first, new) == []
    assert len(cache.sent_again(b"1", [links("a", [1], standing="6 10 10")], new)) == 1
    for standing in ("+ 10 10", "- 10 10"):
        assert cache.sent_again(b"1", [links("a", [1], standing=standing)], new) == []


def test_links_of_domains_without_trust_are_not_counted() -> None:
    """However often a worker finds them."""
    cache = LinkCache()
    cache.learn(1, b"1", links("a", [1]).fingerprints)
    group = links("a", [1], linked=FOUND, standing="- 10 10")
    assert [cache.sent_again(b"1", [group], []) for _ in range(3)] == [[], [], []]
