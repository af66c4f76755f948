"""Clients that wait for a page are never left without a word, in one partition and in three."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import OutboxRecord, Outcome
from support.contract.whole import Whole
from support.frontier.bench import CRAWL, links, redirect

ENDINGS = {"crawl_finished", "crawl_stopped", "crawl_expired"}
MOST_DEATHS = 3


def waiting(uuid: str) -> dict[str, Any]:
    """The profile of a seed whose client waits for its page."""
    return {"uuid": uuid, "answer": "page"}


async def told(whole: Whole) -> tuple[Sequence[OutboxRecord], dict[str, list[str]]]:
    """All records of the outboxes, and who is left without a page by each ending."""
    owed = await whole.owed()
    return owed, {one.kind: sorted(one.unanswered) for one in owed if one.kind in ENDINGS}


async def test_a_seed_whose_client_waits_is_not_accepted_in_words(whole: Whole) -> None:
    """Its reply is about the page; another client of the same crawl gets `accepted`."""
    first, second, _ = whole.domains()
    await whole.put(
        whole.records.seed(f"{first}/", **waiting("u1")),
        whole.records.seed(f"{second}/", uuid="u2"),
    )
    owed, _ = await told(whole)
    assert [one.uuid for one in owed if one.kind == "accepted"] == ["u2"]


async def test_a_stop_answers_who_still_waits(whole: Whole) -> None:
    """Pages that were answered, and one in flight, are not told `stopped`; pages below neither."""
    domains = whole.domains()
    for n, domain in enumerate(domains):
        await whole.seeds(f"{domain}/", **waiting(f"u{n}"))
    answered, in_flight = await whole.lease(2)
    below = [links(domain, ["below"]) for domain in domains]
    await whole.settle(answered, *below, answered=answered.profile.uuid)
    await whole.settled()
    await whole.say("stop")
    await whole.settle(in_flight, answered=in_flight.profile.uuid)
    await whole.tend()
    _, unanswered = await told(whole)
    left = {"u0", "u1", "u2"} - {answered.profile.uuid, in_flight.profile.uuid}
    assert unanswered == {"crawl_stopped": sorted(left)}


async def test_an_expired_run_answers_who_still_waits(whole: Whole) -> None:
    """Answers the clients of an expired run that still wait, in every partition."""
    expires = int(time.time()) + 3  # late enough for a busy machine to feed and lease before
    for n, domain in enumerate(whole.domains()):
        await whole.seeds(f"{domain}/", expires=expires, **waiting(f"u{n}"))
    (lease,) = await whole.lease(1)
    await whole.settle(lease, answered=lease.profile.uuid)
    unanswered: dict[str, list[str]] = {}
    deadline = time.monotonic() + 20
    while not unanswered:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
        await whole.advance(200)
        await whole.tend()
        _, unanswered = await told(whole)
    assert unanswered == {"crawl_expired": sorted({"u0", "u1", "u2"} - {str(lease.profile.uuid)})}


async def test_where_a_redirect_leads_the_page_is_answered(whole: Whole) -> None:
    """Replies from another partition; no client is left when the run ends."""
    first, second, _ = whole.domains()
    await whole.seeds(f"{first}/", **waiting("u1"))
    (lease,) = await whole.lease()
    await whole.settle(lease, redirect(f"{second}/", "s"), outcome=Outcome.REDIRECTED)
    await whole.settled()
    (target,) = await whole.lease()
    assert (target.profile.uuid, target.profile.answer) == ("u1", "page")
    await whole.settle(target, answered="u1")
    await whole.finish()
    _, unanswered = await told(whole)
    assert unanswered == {"crawl_finished": []}


async def test_a_redirect_that_is_not_admitted_is_answered_at_the_end(whole: Whole) -> None:
    """Its target is gone, and the run has nothing else."""
    first, *_ = whole.domains()
    await whole.seeds(f"{first}/", **waiting("u1"))
    (lease,) = await whole.lease()
    await whole.settle(lease, outcome=Outcome.REDIRECTED, filtered={"frontier_full": 1})
    await whole.finish()
    _, unanswered = await told(whole)
    assert unanswered == {"crawl_finished": ["u1"]}


async def test_a_dead_letter_is_an_answer(whole: Whole) -> None:
    """Its outbox record has the profile, by which redis-monitor replies; the end adds nothing."""
    first, *_ = whole.domains()
    await whole.seeds(f"{first}/", **waiting('a "quoted" \\ uuid'))
    for _ in range(MOST_DEATHS):
        (lease,) = await whole.lease()
        await whole.session(lease.partition).blame("w1", lease.token)
        await whole.advance(61_000)
    await whole.finish()
    owed, unanswered = await told(whole)
    (dead,) = [one for one in owed if one.kind == "page_failed"]
    assert dead.lease is not None
    assert dead.lease.profile.answer == "page"
    assert unanswered == {"crawl_finished": []}


async def test_the_next_run_owes_nothing_of_the_last_one(whole: Whole) -> None:
    """Replies once to each client; the crawl goes on under the same name."""
    first, *_ = whole.domains()
    for run in (1, 2):
        await whole.seeds(f"{first}/", **waiting(f"u{run}"))
        (lease,) = await whole.lease()
        assert lease.run == run
        await whole.settle(lease, answered=f"u{run}")
        await whole.finish()
        _, unanswered = await told(whole)
        assert unanswered == {"crawl_finished": []}


async def test_crawls_do_not_answer_for_each_other(whole: Whole) -> None:
    """Counts the same uuid in two crawls as two clients."""
    other = CrawlKey("link", "app", "other")
    first, *_ = whole.domains()
    for crawl in (CRAWL, other):
        await whole.seeds(f"{first}/", crawl=crawl, **waiting("u1"))
    for lease in await whole.lease():
        if lease.crawl == CRAWL:
            await whole.settle(lease, answered="u1")
    await whole.say("stop", other)
    await whole.say("stop")
    await whole.tend()
    owed, _ = await told(whole)
    left = {(one.crawl, *one.unanswered) for one in owed if one.kind in ENDINGS}
    assert (CRAWL,) in left
