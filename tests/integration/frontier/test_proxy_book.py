"""The shared book of proxies: who is out, who rests, which sites are silent, for all workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.egress.pools import Pool, PoolTable, Proxy
from crawlstream_frontier.egress.proxy_book import LIVE_MS, BookSession, ProxyBook
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.proxy_reports import (
    ALL_SITES,
    REFUSED,
    BookAnswer,
    PoolSpend,
    ProxyBan,
    ProxyOutcome,
    ProxyReport,
    ProxyRest,
    ProxyUse,
)
from support.frontier.audit import audit
from support.frontier.bench import KEYS, Bench, open_bench

pytestmark = pytest.mark.usefixtures("still")
pytest_plugins = ["support.frontier.fixtures"]

Told = list[tuple[str, str, str, int, int]]
"""News: kind, proxy, site, seconds left, number."""


@dataclass
class House:
    """A frontier whose clock the test moves, and workers that report on proxies."""

    bench: Bench
    book: ProxyBook

    def session(self, name: str = "w1") -> BookSession:
        """Book of a worker of that name."""
        return Frontier(self.bench.redis, KEYS).book.session(name)

    async def tell(self, session: BookSession, **report: Any) -> BookAnswer:
        """Make one call."""
        return await session.exchange(ProxyReport(**report), is_user=False)

    async def came_of(self, session: BookSession, proxy: str = "p", **outcome: Any) -> Told:
        """Make a call that reports the outcomes of requests through one proxy; return the news."""
        outcomes = {proxy: ProxyOutcome(**outcome)}
        return told(await self.tell(session, outcomes=outcomes))

    async def advance(self, s: float) -> None:
        """Let time pass."""
        await self.bench.advance(int(s * 1000))


def told(answer: BookAnswer) -> Told:
    """News, in whole seconds."""
    return [
        (one.kind, one.proxy, one.site, max(round(one.left_s), 0), one.number)
        for one in answer.news
    ]


@pytest.fixture
def luck(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Chance: its one item, which the test may change."""
    luck = [1.0]
    monkeypatch.setattr("crawlstream_frontier.codec.proxy_book.random.random", lambda: luck[0])
    return luck


@pytest.fixture
async def house(redis: Redis, luck: list[float]) -> AsyncIterator[House]:
    """An empty frontier; audited when the test is over."""
    assert luck
    bench = await open_bench(redis)
    yield House(bench, bench.frontier.book)
    await audit(redis)


async def test_sure_failures_in_a_row_put_a_proxy_out_for_all_whoever_met_them(
    house: House,
) -> None:
    """Five, in the whole cluster; an answer in between restarts the row."""
    first, second = house.session("a"), house.session("b")
    assert await house.came_of(first, failed=4, in_row=4) == []
    assert await house.came_of(second, answers=1, failed=3, in_row=1) == []
    assert await house.came_of(first, failed=3, in_row=3) == []
    assert await house.came_of(second, failed=1, in_row=1) == [("o", "p", "*", 30, 1)]
    assert told(await house.tell(first)) == [("o", "p", "*", 30, 1)]
    assert told(await house.tell(first)) == []


async def test_a_proxy_is_out_for_longer_each_time_less_by_chance_and_tried_in_between(
    house: House, luck: list[float]
) -> None:
    """Doubling up to an hour; one failure after it is enough; an answer forgets all of them."""
    session = house.session()
    spans = []
    for time in range(1, 23):
        ((_, _, _, left, number),) = await house.came_of(
            session, failed=1, in_row=1, is_sure=time == 1
        )
        spans.append(left)
        assert number == min(time, 20)
        await house.advance(left)
    assert spans == [*(30 * 2**n for n in range(7)), *[3600] * 15]
    assert await house.came_of(session, answers=1) == [("o", "p", "*", 0, 0)]
    luck[0] = 0.5
    assert await house.came_of(session, failed=1, in_row=1, is_sure=True) == [
        ("o", "p", "*", 15, 1)
    ]
    assert (await house.book.health())["p"].times_out == 1


async def test_who_is_out_already_is_not_put_out_for_longer_by_who_has_not_heard(
    house: House,
) -> None:
    """An answer brings it back, for all."""
    first, second = house.session("a"), house.session("b")
    await house.came_of(first, failed=1, in_row=1, is_sure=True)
    await house.advance(29.999)
    late = await house.came_of(second, failed=9, in_row=9, is_sure=True, lost=list("abcdef"))
    assert late == [("o", "p", "*", 0, 1)]
    await house.advance(0.001)
    back = await house.came_of(second, failed=0, in_row=0, lost=["a"])
    assert back == []
    assert await house.came_of(second, failed=1, in_row=1) == [("o", "p", "*", 60, 2)]
    assert await house.came_of(second, answers=1) == [("o", "p", "*", 0, 0)]
    assert await house.book.rests() == []
    assert (await house.book.health())["p"].times_out == 0
    assert await house.came_of(second, failed=1, in_row=1) == []


async def test_a_proxy_that_comes_through_to_no_site_is_out(house: House) -> None:
    """Five sites, from any workers, since its last answer; twice the same one is one."""
    first, second = house.session("a"), house.session("b")
    assert await house.came_of(first, path=3, lost=["a", "b", "a"]) == []
    assert await house.came_of(second, path=2, lost=["b", "c", "d"]) == []
    assert await house.came_of(first, answers=1, through=["a"], path=1, lost=["e"]) == []
    assert await house.came_of(second, path=4, lost=["a", "b", "c"]) == []
    assert await house.came_of(second, path=1, lost=["d"]) == [("o", "p", "*", 30, 1)]
    await house.advance(30)
    assert await house.came_of(second, path=1, lost=["d"]) == []


async def test_counts_and_means_are_of_all_workers(house: House) -> None:
    """The score is 1 for an answer, a half if unknown, 0 for a failure: of about twenty."""
    session = house.session()
    await house.came_of(session, answers=2, refused=1, total_ms=100)
    health = (await house.book.health())["p"]
    assert (health.answers, health.refused, health.score, health.mean_ms) == (2, 1, 1.0, 50)
    await house.came_of(session, path=1, failed=1, in_row=1)
    health = (await house.book.health())["p"]
    assert (health.path, health.failed, health.in_row) == (1, 1, 1)
    assert health.score == pytest.approx((0.5 + 0.5 * 0.95) * 0.95)
    await house.came_of(session, answers=1, refused=1, path=2, failed=3, total_ms=100)
    health = (await house.book.health())["p"]
    assert (health.answers, health.refused, health.path, health.failed) == (3, 2, 3, 4)
    assert health.mean_ms == pytest.approx(100 - 50 * 0.95)


async def test_a_rest_is_for_one_site_and_the_longest_of_them_holds(house: House) -> None:
    """Ends a rest when it is over, or when the site has answered."""
    session, other = house.session(), house.session("b")
    await house.tell(session)
    rests = [ProxyRest("p", "a b", 9_000, 2), ProxyRest("q", "a b", 5_000, REFUSED)]
    news = [("r", "p", "a b", 9, 2), ("r", "q", "a b", 5, -1)]
    assert told(await house.tell(session, rests=rests)) == news
    assert told(await house.tell(other)) == [(*each[:4], 0) for each in news]
    await house.tell(session, rests=[ProxyRest("p", "a b", 1_000, 3), ProxyRest("p", "c", 0, 3)])
    assert [each[:4] for each in told(await house.tell(house.session("c")))] == [
        each[:4] for each in news
    ]
    await house.tell(other)
    await house.advance(5)
    assert [rest.proxy for rest in await house.book.rests()] == ["p"]
    await house.tell(session)
    answers = [("p", "a b"), ("q", "a b")]
    assert told(await house.tell(session, answers=answers)) == [("r", "p", "a b", 0, 0)]
    assert told(await house.tell(other)) == [("r", "p", "a b", 0, 0)]
    assert await house.book.rests() == []


async def test_only_proxies_that_work_elsewhere_say_that_a_site_is_silent(house: House) -> None:
    """Lately, each once, at most four of them; and until the site answers."""
    session = house.session()

    async def miss(proxy: str, site: str = "a", ms: int = 0, steps: int = 0) -> Told:
        return told(await house.tell(session, rests=[ProxyRest(proxy, site, ms, steps)]))

    assert await miss("p") == []
    await house.came_of(session, answers=2, through=["a"])
    assert await miss("p") == []
    await house.came_of(session, answers=2, through=["b"])
    assert await miss("p", steps=REFUSED) == []
    assert await miss("p") == [("s", "p", "a", 0, 0)]
    assert await miss("p", ms=2_000, steps=1) == [("r", "p", "a", 2, 1)]
    assert await miss("p", "b") == [("s", "p", "b", 0, 0)]
    assert await miss("p", "c") == [("s", "p", "c", 0, 0)]
    await house.advance(59.999)
    await house.came_of(session, answers=2, through=["c"])
    await house.came_of(session, answers=2, through=["c"])
    assert await miss("p", "c") == []
    answered = await house.tell(session, answers=[("q", "c"), ("q", "c")])
    assert told(answered) == [("a", "q", "c", 0, 0)]
    assert await miss("p", "c") == [("s", "p", "c", 0, 0)]
    await house.tell(session, answers=[("q", "c")])
    await house.advance(0.001)
    assert await miss("p", "c") == []
    assert await miss("p", "d") == [("s", "p", "d", 0, 0)]
    for number in range(5):
        proxy = f"q{number}"
        await house.came_of(session, proxy, answers=1, through=["z"])
        assert bool(await miss(proxy, "d")) == (number < 3)


async def test_a_call_that_is_repeated_tells_nothing_twice(house: House) -> None:
    """Its news are repeated; a tool's calls have no number."""
    session = house.session()
    report: dict[str, Any] = {
        "outcomes": {"p": ProxyOutcome(answers=1, refused=1)},
        "uses": [use("p", "a", 2, most=5)],
        "spends": {"de": spend(3, 7)},
        "rests": [ProxyRest("p", "a", 9_000, REFUSED)],
    }
    await house.tell(session)
    first = await house.tell(session, **report)
    assert told(first) == [("r", "p", "a", 9, -1)]
    session._call -= 1
    again = await house.tell(session, **report)
    assert told(again) == []
    assert (await house.book.health())["p"].answers == 1
    assert first.spent == again.spent == {"de": spend(3, 7)}
    await house.tell(session, **report)
    assert (await house.book.health())["p"].answers == 2
    assert await house.book.spent(["de", "x"]) == {"de": spend(6, 14), "x": spend(0, 0)}


def use(proxy: str, site: str, requests: int, most: int) -> ProxyUse:
    """Report ``number`` requests to a site."""
    return ProxyUse(proxy, site, requests, most, 4_000)


def spend(requests: int, size: int) -> PoolSpend:
    """A part of a budget."""
    return PoolSpend(requests, size)


async def test_a_proxy_rests_for_a_site_that_all_workers_together_have_used_it_for(
    house: House,
) -> None:
    """Lets a proxy rest for a site after its uses by all workers, and counts again per site."""
    first, second = house.session("a"), house.session("b")
    assert told(await house.tell(first, uses=[use("p", "a", 6, 10), use("p", "b", 9, 10)])) == []
    assert told(await house.tell(second, uses=[use("p", "a", 3, 10)])) == []
    rested = await house.tell(second, uses=[use("p", "a", 1, 10)])
    assert told(rested) == [("r", "p", "a", 4, -1)]
    assert told(await house.tell(second, uses=[use("p", "a", 9, 10)])) == []


async def test_a_ban_holds_whatever_the_proxy_does_until_it_ends_or_is_lifted(
    house: House,
) -> None:
    """Another one for the same replaces it, shorter as well as longer."""
    session = house.session()
    await house.tell(session)
    await house.book.ban(ProxyBan("p", "a", 9_000), ProxyBan("q", ALL_SITES, 8_000))
    banned = [("b", "p", "a", 9, 0), ("b", "q", "*", 8, 0)]
    assert told(await house.tell(session)) == banned
    answers = {proxy: ProxyOutcome(answers=1, through=["a"]) for proxy in ("p", "q")}
    await house.tell(session, outcomes=answers, answers=[("p", "a"), ("q", "*")])
    assert told(await house.tell(house.session("late"))) == banned
    await house.book.ban(ProxyBan("p", "a", 2_000))
    assert told(await house.tell(session)) == [("b", "p", "a", 0, 0), ("b", "p", "a", 2, 0)]
    await house.book.ban(ProxyBan("q", ALL_SITES, 0), ProxyBan("nobody", "a", 0))
    assert told(await house.tell(session)) == [("b", "q", "*", 0, 0)]


async def test_workers_that_use_proxies_know_how_many_they_are_and_each_its_place(
    house: House,
) -> None:
    """A worker that does not, or has no heartbeat any more, is not counted."""
    names = ["b", "a", "c"]
    for name in names:
        await house.session(name).exchange(ProxyReport(), is_user=True)
    await house.session("aa").exchange(ProxyReport(), is_user=False)
    found = {}
    for name in names:
        answer = await house.session(name).exchange(ProxyReport(), is_user=True)
        found[name] = (answer.workers, answer.place)
    assert found == {"a": (3, 0), "b": (3, 1), "c": (3, 2)}
    await house.advance(LIVE_MS / 1000 - 0.001)
    await house.session("a").exchange(ProxyReport(), is_user=True)
    assert (await house.tell(house.session("z"))).workers == 3
    await house.advance(0.001)
    assert (await house.tell(house.session("z"))).workers == 1


async def test_who_comes_late_hears_of_all_rests_and_then_of_what_came_after(
    house: House,
) -> None:
    """Reports all rests to a late reader in parts, nothing twice and nothing left out."""
    late, session = house.session("late"), house.session()
    many = [ProxyRest("p", f"s{number}", 1_000 + number, REFUSED) for number in range(2_000)]
    await house.tell(session, rests=many)
    await house.came_of(session, failed=1, in_row=1, is_sure=True)
    answer = await house.tell(late)
    assert (answer.is_more, len(answer.news)) == (True, 1_000)
    assert told(answer)[0] == ("o", "p", "*", 30, 1)
    await house.tell(session, rests=[ProxyRest("q", "new", 500, REFUSED)])
    heard = [each.site for each in answer.news]
    for is_more in (True, False):
        answer = await house.tell(late)
        assert answer.is_more == is_more
        heard += [each.site for each in answer.news]
    assert sorted(heard[:2_001]) == sorted(["*", *(rest.site for rest in many)])
    assert told(await house.tell(late)) == [("r", "q", "new", 0, -1)]


async def test_more_news_than_a_call_tells_come_with_the_next(house: House) -> None:
    """A worker that missed more news than are kept receives all rests instead."""
    session, other, sleeper = house.session(), house.session("b"), house.session("c")
    for each in (other, sleeper):
        await house.tell(each)
    many = [ProxyRest("p", f"s{number}", 60_000, REFUSED) for number in range(1_001)]
    await house.tell(session, rests=many)
    answer = await house.tell(other)
    assert (answer.is_more, len(answer.news)) == (True, 1_000)
    answer = await house.tell(other)
    assert (answer.is_more, told(answer)) == (False, [("r", "p", "s1000", 60, -1)])
    for _ in range(5):
        await house.tell(session, rests=many)
    assert await house.bench.redis.xlen(KEYS.tag + "proxies:news") == 5_000
    assert len((await house.tell(sleeper)).news) == 1_000
    assert (await house.tell(sleeper)).is_more is False
    answer = await house.tell(other)
    assert answer.is_more
    assert told(answer)[0][2] == "s999"


async def test_news_that_are_lost_are_made_up_for_by_all_rests(house: House) -> None:
    """Reports all rests again after a loss of Redis, or an hour without news."""
    session, other = house.session(), house.session("b")
    await house.tell(session, rests=[ProxyRest("p", "a", 60_000, REFUSED)])
    assert len((await house.tell(other)).news) == 1
    await house.bench.redis.delete(KEYS.tag + "proxies:news")
    for each in (other, house.session("late")):
        assert [one.site for one in (await house.tell(each)).news] == ["a"]
    assert told(await house.tell(other)) == []
    await house.tell(session, rests=[ProxyRest("p", "b", 60_000, REFUSED)])
    assert [one.site for one in (await house.tell(other)).news] == ["b"]


async def test_the_book_is_bounded_in_number(house: House) -> None:
    """The first to end goes first; nothing that is kept already is refused."""
    redis, tag, session = house.bench.redis, KEYS.tag, house.session()
    far = await house.bench.clock() + 10**9
    await redis.zadd(
        f"{tag}proxies:rest", {f"r p s{number}": far + number for number in range(100_000)}
    )
    await house.tell(session, rests=[ProxyRest("p", "x", 10**8, REFUSED)])
    assert await redis.zcard(f"{tag}proxies:rest") == 100_000
    assert await redis.zscore(f"{tag}proxies:rest", "r p x") is None
    await redis.hset(f"{tag}proxies:health", mapping={f"p{n}": "" for n in range(9_999)})
    for proxy in ("last", "toomuch", "last"):
        await house.came_of(session, proxy, answers=1, through=["b"])
    assert await redis.hlen(f"{tag}proxies:health") == 10_000
    assert not await redis.hexists(f"{tag}proxies:health", "toomuch")
    packed = await redis.hget(f"{tag}proxies:health", "last")
    assert packed
    await redis.hset(f"{tag}proxies:blind", mapping={f"s{n}": b"\x91\xa1q" for n in range(20_000)})
    await house.tell(session, rests=[ProxyRest("last", "s7", 0, 0), ProxyRest("last", "new", 0, 0)])
    assert await redis.hlen(f"{tag}proxies:blind") == 20_000
    assert await redis.hexists(f"{tag}proxies:blind", "new")
    # Looking all of it over takes seconds.
    await redis.delete(*(f"{tag}proxies:{name}" for name in ("rest", "health", "blind")))


async def test_what_is_over_is_dropped_a_thousand_at_a_time(house: House) -> None:
    """Rests that are not over stay."""
    redis, key = house.bench.redis, KEYS.tag + "proxies:rest"
    clock = await house.bench.clock()
    await redis.zadd(key, {f"r p s{number}": clock for number in range(1_500)})
    await redis.zadd(key, {"r p last": clock + 1})
    await house.tell(house.session())
    assert await redis.zcard(key) == 501
    await house.tell(house.session())
    assert await redis.zrange(key, 0, -1) == [b"r p last"]


async def test_counts_of_uses_are_bounded_too(house: House) -> None:
    """Earlier counts are continued."""
    redis, session = house.bench.redis, house.session()
    await house.tell(session, uses=[use("p", "a", 1, 10)])
    (key,) = [each async for each in redis.scan_iter(match=f"{KEYS.tag}proxies:used:*")]
    await redis.hset(key, mapping={f"q {number}": 1 for number in range(199_998)})
    await house.tell(session, uses=[use("p", "b", 1, 10), use("p", "c", 1, 10)])
    assert await redis.hexists(key, "p b")
    assert not await redis.hexists(key, "p c")
    assert told(await house.tell(session, uses=[use("p", "a", 9, 10)])) == [("r", "p", "a", 4, -1)]
    await redis.delete(key)


async def test_everything_ends_by_itself(house: House) -> None:
    """Each key has its time to live; only what is known of proxies stays, as long as they do."""
    redis, session = house.bench.redis, house.session()
    await session.exchange(
        ProxyReport(
            outcomes={"p": ProxyOutcome(answers=1, through=["b"], in_row=9)},
            rests=[ProxyRest("p", "a", 5_000, 0)],
            uses=[use("p", "a", 1, 10)],
            spends={"de": spend(1, 1)},
        ),
        is_user=True,
    )
    hour = 3_600
    lives = {}
    async for key in redis.scan_iter(match=f"{KEYS.tag}proxies:*"):
        name = key.decode().removeprefix(KEYS.tag).split(":")[1]
        lives[name] = round(await redis.pttl(key) / 1000 / hour)
    assert lives == {
        "health": 0,
        "rest": 48,
        "blind": 1,
        "news": 1,
        "workers": 1,
        "calls": 1,
        "used": 2,
        "spent": 48,
    }
    assert await redis.ttl(KEYS.proxy_health()) == -1


async def test_what_the_table_drops_is_forgotten(house: House) -> None:
    """Forgets dropped proxies, however many there are."""
    session = house.session()
    proxies = tuple(Proxy(scheme="http", host="10.0.0.1", port=port) for port in range(1, 2_503))
    await house.bench.redis.hset(
        KEYS.proxy_health(), mapping={proxy.id: b"\x90" for proxy in proxies}
    )
    await house.tell(session)
    kept = Pool(name="de", proxies=proxies[:2])
    assert await house.bench.frontier.pools.copy(PoolTable(pools={"de": kept}, czxid=1, mzxid=1))
    left = await house.bench.redis.hkeys(KEYS.proxy_health())
    assert {each.decode() for each in left} == {proxy.id for proxy in proxies[:2]}
