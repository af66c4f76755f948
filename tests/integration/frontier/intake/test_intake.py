"""The way in for seeds and commands: positions, dedupe, caps."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from crawlstream.errors import PositionGap
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Loss
from crawlstream.model.run_marks import Fate
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, Feed, links, position_of

pytest_plugins = ["support.frontier.fixtures"]


async def test_a_repeated_batch_changes_nothing(bench: Bench) -> None:
    """A batch whose answer was lost takes effect once, however often it is sent."""
    batch = bench.feed.batch(bench.feed.seed("a/1"), bench.feed.seed("a/2"))
    assert (await bench.frontier.intake.apply(batch)).applied == 2
    repeated = await bench.frontier.intake.apply(batch)
    assert (repeated.applied, dict(repeated.runs)) == (0, {})
    assert (await bench.state()).queued == 2


async def test_an_overlapping_batch_takes_effect_from_the_position_on(bench: Bench) -> None:
    """Counts only the new records of a batch that begins below the position."""
    feed = bench.feed
    first = feed.seed("a/1"), feed.seed("a/2")
    await feed.put(*first)
    answer = await feed.put(*first, feed.seed("a/3"))
    assert (answer.applied, dict(answer.runs)) == (1, {2: 1})
    assert (await bench.state()).admitted == 3


async def test_a_gap_writes_nothing_and_names_the_position(bench: Bench) -> None:
    """A batch that begins above the position is refused, and says where to read again."""
    feed = bench.feed
    await feed.seeds("a/1", "a/2")
    feed.next = 7
    with pytest.raises(PositionGap) as gap:
        await feed.seeds("a/3")
    assert gap.value.position == 2
    assert (await bench.state()).admitted == 2
    assert await position_of(bench.frontier, "topic", 0) == 2


async def test_a_batch_without_effects_moves_the_position(bench: Bench) -> None:
    """Offsets of rejected records are covered by ``next`` alone."""
    feed = bench.feed
    feed.next = 5
    empty = replace(feed.batch(), start=0)
    assert (await bench.frontier.intake.apply(empty)).applied == 0
    assert await position_of(bench.frontier, "topic", 0) == 5


async def test_the_first_batch_begins_where_the_frontier_was_told(bench: Bench) -> None:
    """A partition without a position is a new one or a lost one: an operator has to say which."""
    feed = Feed(bench.frontier, partition=1)
    for first in (0, 1_000):
        feed.next = first
        with pytest.raises(PositionGap) as gap:
            await feed.put(feed.seed("a/0"))
        assert gap.value.position == -1
        assert await position_of(bench.frontier, "topic", 1) is None
    loss = Loss(topic_id="topic", kafka_partition=1, offset=1_000)
    assert await bench.frontier.positions.restore(loss) == 1_000
    assert await bench.frontier.positions.restore(replace(loss, offset=7)) == 1_000
    feed.next = 1_000
    assert (await feed.seeds("a/1")).applied == 1
    assert await position_of(bench.frontier, "topic", 1) == 1_001


async def test_a_new_redis_goes_on_with_the_runs_of_a_lost_one(bench: Bench) -> None:
    """A run that was open has its old number and is marked; all others are numbered above."""
    lost, unknown = CRAWL, replace(CRAWL, crawlid="unknown")
    fates = [Fate(crawl=lost, run=4, is_over=False)]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=9, floor=7, fates=fates)
    positions = bench.frontier.positions
    assert await positions.restore(loss) == 0
    assert await positions.lost_until("topic", 0) == 9
    answer = await bench.feed.seeds("a/1")
    assert dict(answer.runs) == {0: 4}
    assert dict((await bench.feed.seeds("b/1", crawl=unknown)).runs) == {1: 8}
    assert await positions.known() == {("topic", 0): 2}
    assert not await bench.worker.lease(2), "nobody knows what was sent before the loss"
    await bench.advance(3 * int(WIDE_OPEN.window_s * 1000))
    recovered = {lease.crawl: lease.recovered for lease in await bench.worker.lease(2)}
    assert recovered == {lost: True, unknown: False}


async def test_an_ended_run_of_a_crawl_that_was_forgotten_changes_nothing(bench: Bench) -> None:
    """A run that ended before the loss needs no ending: the next feed is the next run."""
    fates = [Fate(crawl=CRAWL, run=4, is_over=True)]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=9, floor=4, fates=fates)
    assert await bench.frontier.positions.restore(loss) == 0
    assert dict((await bench.feed.seeds("a/1")).runs) == {0: 5}
    assert await bench.events() == ["crawl_started"]


async def test_a_crawl_that_was_paused_begins_again_paused(bench: Bench) -> None:
    """Begins a paused crawl paused after a loss, until it is resumed."""
    fates = [Fate(crawl=CRAWL, run=2, is_over=False, is_paused=True)]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=9, floor=2, fates=fates)
    await bench.frontier.positions.restore(loss)
    await bench.feed.seeds("a/1")
    state = await bench.state()
    assert (state.run, state.state) == (2, "paused")
    await bench.feed.say("resume")
    assert (await bench.state()).state == "running"


async def test_what_was_told_since_a_restart_is_not_undone(bench: Bench) -> None:
    """A kafka-monitor that is late with the fates of runs does not resume what is paused now."""
    await bench.feed.seeds("a/1")
    fates = [Fate(crawl=CRAWL, run=1, is_over=False)]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=9, floor=1, fates=fates)
    await bench.feed.say("pause")
    await bench.pretend_restart()
    positions = bench.frontier.positions
    await positions.restore(loss)
    assert (await bench.state()).state == "running", "Kafka knows more than the copy"
    await bench.feed.say("pause")
    await positions.restore(replace(loss, kafka_partition=1))
    assert (await bench.state()).state == "paused"


async def test_an_old_copy_of_redis_is_told_what_became_of_its_runs(bench: Bench) -> None:
    """Ended runs end without a second record; open ones are marked; numbers never go back."""
    over, on, later, away = (replace(CRAWL, crawlid=name) for name in ("over", "on", "later", "x"))
    for crawl in (over, on, later):
        await bench.feed.seeds("a/1", crawl=crawl)
    told = {record.kind for record in await bench.owed()}
    assert told == {"crawl_started"}
    loss = Loss(
        topic_id="topic",
        kafka_partition=0,
        offset=0,
        until=90,
        floor=5,
        fates=[
            Fate(crawl=over, run=3, is_over=True),
            Fate(crawl=on, run=1, is_over=False, is_paused=True),
            Fate(crawl=later, run=2, is_over=False),
            Fate(crawl=away, run=4, is_over=False),
        ],
    )
    for _ in range(2):
        assert await bench.frontier.positions.restore(loss) == 3
    await bench.tend()
    assert not await bench.owed(), "an ending was told a second time"
    states = [(await bench.state(crawl)).state for crawl in (over, on, later)]
    assert states == ["stopped", "paused", "stopped"]
    runs = [(await bench.feed.seeds("b/1", crawl=c)).runs for c in (over, on, later, away)]
    assert [next(iter(numbers.values())) for numbers in runs] == [4, 1, 2, 4]


async def test_another_topic_has_positions_of_its_own(bench: Bench) -> None:
    """A topic created again under the same name begins at its beginning."""
    bench.feed.next = 5_000
    await bench.frontier.intake.apply(replace(bench.feed.batch(), start=0))
    await bench.feed.seeds("a/1")
    anew = await bench.another_feed(0, topic_id="another")
    assert (await anew.seeds("a/2")).applied == 1
    assert await position_of(bench.frontier, "topic", 0) == 5_001
    assert await position_of(bench.frontier, "another", 0) == 1


async def test_a_seed_enters_each_time_it_is_fed(bench: Bench) -> None:
    """A seed fed again is crawled again, in the same run while that is open."""
    assert dict((await bench.feed.seeds("a/1", "a/1")).runs) == {0: 1, 1: 1}
    assert await bench.worker.crawl_all() == ["a/1", "a/1"]


async def test_a_link_enters_once_a_crawl(bench: Bench) -> None:
    """A link is a duplicate of a seed, of another page's link and of one in the same batch."""
    await bench.feed.seeds("a/1", "b/1")
    leases = await bench.worker.lease(2)
    await bench.worker.settle(*leases, links=[links("a", [1, 2, 2, 3])])
    assert sorted(await bench.worker.crawl_all()) == ["a/2", "a/3"]
    state = await bench.state()
    assert (state.admitted, state.filtered_by_reason) == (4, {"duplicate": 6})


async def test_crawls_do_not_share_dedupe(bench: Bench) -> None:
    """A URL is fetched once for each (spiderid, appid, crawlid)."""
    crawls = [replace(CRAWL, crawlid="x"), replace(CRAWL, appid="x"), CRAWL]
    for crawl in crawls:
        await bench.feed.seeds("a/1", crawl=crawl)
    leases = await bench.worker.lease(10)
    assert {lease.crawl for lease in leases} == set(crawls)
    await bench.worker.settle(*leases, links=[links("b", [1])])
    assert await bench.worker.crawl_all() == ["b/1"] * 3


async def test_dedupe_is_exact_for_many_links_of_one_domain(bench: Bench) -> None:
    """Thousands of links into one domain are each admitted once, through every split."""
    await bench.feed.seeds("a/seed")
    for start in range(0, 6_000, 500):
        (lease,) = await bench.worker.lease()
        group = links("big", range(start, start + 750), priority=10)
        again = links("a", [f"next{start}"], priority=90)
        await bench.worker.settle(lease, links=[group, again])
    state = await bench.state()
    assert state.admitted == 1 + 6_250 + 12
    assert state.filtered_by_reason == {"duplicate": 11 * 250}


async def test_dedupe_is_exact_for_many_small_domains(bench: Bench) -> None:
    """Domains that share a set do not mix their links."""
    await bench.feed.seeds("a/1", "a/2")
    for _ in range(2):
        (lease,) = await bench.worker.lease()
        groups = [links(f"d{i}", range(i % 25), priority=10) for i in range(100)]
        await bench.worker.settle(lease, links=groups)
    total = sum(i % 25 for i in range(100))
    state = await bench.state()
    assert state.admitted == 2 + total
    assert state.filtered_by_reason == {"duplicate": total}


async def test_domain_max_pages_counts_seeds_and_links(bench: Bench) -> None:
    """N pages are admitted to a domain and crawl, seeds included; the rest is counted."""
    limits = {"domain_max_pages": 3}
    answer = await bench.feed.seeds("a/1", "a/2", "b/1", **limits)
    assert not answer.refused
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [8, 9]), links("b", [8, 9, 10])])
    refused = await bench.feed.seeds("a/3", **limits)
    assert dict(refused.refused) == {3: "domain_max_pages"}
    state = await bench.state()
    assert state.admitted == 6
    assert state.filtered_by_reason == {"domain_max_pages": 3}


async def test_max_pages_counts_the_whole_crawl(bench: Bench) -> None:
    """N pages are admitted to a crawl, whatever their domains."""
    answer = await bench.feed.seeds("a/1", "b/1", "c/1", max_pages=2)
    assert dict(answer.refused) == {2: "max_pages"}
    assert (await bench.state()).admitted == 2


async def test_redirect_targets_do_not_use_up_the_caps(bench: Bench) -> None:
    """A redirect hop enters a domain that is full."""
    await bench.feed.seeds("a/1", domain_max_pages=1, max_pages=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [2], counts=False)])
    assert await bench.worker.crawl_all() == ["a/2"]


async def test_a_link_that_a_cap_refused_is_not_marked(bench: Bench) -> None:
    """A link that a cap refuses may enter later as a redirect target."""
    await bench.feed.seeds("a/1", domain_max_pages=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(
        lease, links=[links("a", [2]), links("a", [2], counts=False, priority=30)]
    )
    assert await bench.worker.crawl_all() == ["a/2"]
    assert (await bench.state()).filtered_by_reason == {"domain_max_pages": 1}


async def test_links_filtered_by_the_crawler_are_counted(bench: Bench) -> None:
    """Links that never travelled to the frontier are counted next to the ledger, by reason."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, filtered={"depth": 7, "regex": 1})
    assert (await bench.state()).filtered_by_reason == {"depth": 7, "regex": 1}


async def test_an_accepted_seed_is_answered_by_its_uuid(bench: Bench) -> None:
    """Each admitted seed with a uuid gets one answer; a refused one gets none."""
    await bench.feed.seeds("a/1", "a/2", max_pages=1, uuid="who")
    accepted = [one for one in await bench.owed() if one.kind == "accepted"]
    assert [(one.uuid, one.run, one.crawl) for one in accepted] == [("who", 1, CRAWL)]


async def test_seeds_of_one_domain_share_the_commands_of_their_batch(bench: Bench) -> None:
    """They look up their profile once, and enter together: many cost hardly more than a few."""

    async def commands() -> int:
        stats = await bench.redis.info("commandstats")
        return sum(of["calls"] for of in stats.values())

    await bench.feed.seeds("a/first")
    costs = []
    for count in (10, 60):
        before = await commands()
        await bench.feed.seeds(*(f"a/{count}/{number}" for number in range(count)))
        costs.append(await commands() - before)
    assert costs[1] < costs[0] + 10


async def test_ids_may_hold_any_printable_text(bench: Bench) -> None:
    """Separators, wildcards and other scripts in ids mix up neither keys nor crawls."""
    odd = ["a:b", "a", "b:c", "%3A", "*", "ü ö", "{cs0}", "日本", "x'y\"", "-1"]
    crawls = [CrawlKey("link", appid, crawlid) for appid in odd for crawlid in odd[:4]]
    for crawl in crawls:
        await bench.feed.seeds("a/1", crawl=crawl)
    states = {state.crawl: state for state in await bench.frontier.queries.crawls()}
    assert set(states) == set(crawls)
    assert all(state.queued == 1 for state in states.values())
    named = await bench.frontier.queries.crawls(spiderid="link", appid="*")
    assert {state.crawl.appid for state in named} == {"*"}


async def test_domains_may_be_any_host(bench: Bench) -> None:
    """Addresses with colons and names in other scripts are domains like others."""
    for domain in ("::1", "[::1]", "10.0.0.1", "localhost", "münchen.example", "*", "a-b_c"):
        await bench.feed.seeds(f"{domain}/1", f"{domain}/2")
    leases = await bench.worker.lease(100)
    assert len(leases) == 14
    await bench.worker.settle(*leases)


async def test_times_of_clients_may_be_absurd(bench: Bench) -> None:
    """Expiry and not-before in any year neither fail nor hold back anything else."""
    await bench.feed.put(
        bench.feed.seed("a/1", expires=2**63, not_before=0),
        bench.feed.seed("a/2", not_before=1e18),
        bench.feed.seed("a/3", not_before=-5),
    )
    assert await bench.worker.urls() == ["a/1", "a/3"]
    assert (await bench.state()).delayed == 1


async def test_a_seed_waits_for_its_time(bench: Bench) -> None:
    """A seed with a time in the future is leased then, in the order of the feed."""
    at = time.time() + 100
    await bench.feed.seeds(*(f"a/{i}" for i in range(12)), not_before=at)
    answer = await bench.worker.exchange(want=20)
    assert not answer.leases
    assert answer.next_due_ms is not None
    assert 90_000 < answer.next_due_ms <= 100_000
    await bench.advance(100_000)
    assert await bench.worker.urls() == [f"a/{i}" for i in range(12)]
