"""A schedule whose seed has moved, and whose every firing is a crawl of its own."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crawlstream.chaos.facts import APP, EVENTS, FedCrawl, RoundFailed
from crawlstream.chaos.rounds import Round
from crawlstream.demo.truth import Rules, expected_pages
from crawlstream.demo.web import Kind
from crawlstream.tasks import wait_until

_NEVER = "0 0 29 2 *"
"""So seldom that it fires by request only."""
_TOLD_S = 120
"""A redis-monitor that dies amid a firing is followed by another one after ten seconds."""
_FEW = 5
"""Firings that a round must have."""


async def fire_beside(script: Callable[[Round], Awaitable[None]], round_: Round) -> None:
    """Whatever is done, the schedule fires all the while; RoundFailed where a firing is silent."""
    is_over = asyncio.Event()
    seed = _moved_seed(round_)

    async def fire() -> None:
        for number in itertools.count(1):
            await _say(round_, "fire")
            round_.fed.append(await _fed(round_, seed, number))
            if is_over.is_set() and number >= _FEW:
                return

    crawl = {"crawlid": f"{round_.name}-{round_.cluster.web.port}-{{at}}", "maxdepth": 0}
    crawl |= {"priority": 90}
    seeds = [{"url": seed}]
    await _say(round_, "set", cron=_NEVER, overlap="join", crawl=crawl, seeds=seeds)
    async with asyncio.TaskGroup() as group:
        # Not cut off: a firing that was asked for is judged.
        group.create_task(fire())
        try:
            await script(round_)
        finally:
            is_over.set()
    state, told = await _say(round_, "show"), len(_fired(round_))
    if (state["fired"], state["skipped"]) != (told, 0):
        raise RoundFailed(f"{told} firings were told, and the schedule says {state}")
    await _say(round_, "remove")


def _moved_seed(round_: Round) -> str:
    web = round_.cluster.web
    return next(web.url(page) for page in web.pages if page.kind is Kind.MOVED)


async def _say(round_: Round, do: str, **fields: object) -> dict[str, Any]:
    """Ask something of the schedule, and wait for the answer; RoundFailed if nothing was done."""
    recorder, request = round_.cluster.recorder, {"schedule": round_.name, "do": do, **fields}
    uuid = await asyncio.to_thread(lambda: recorder.ask(appid=APP, **request))
    reply = await recorder.answered(uuid, timeout_s=_TOLD_S)
    if "error" in reply:
        raise RoundFailed(f"{do} of a schedule was answered with {reply}")
    return reply


def _fired(round_: Round) -> Sequence[dict[str, Any]]:
    """Firings so far, each once."""
    told = round_.cluster.recorder.records(EVENTS, event="schedule_fired", schedule=round_.name)
    return list({seen.key: seen.value for seen in told}.values())


async def _fed(round_: Round, seed: str, number: int) -> FedCrawl:
    """Wait until a firing is told; what it must bring."""
    began = time.monotonic()
    try:
        await wait_until(lambda: len(_fired(round_)) >= number, timeout_s=_TOLD_S, every_s=0.1)
    except TimeoutError:
        waited = time.monotonic() - began
        raise RoundFailed(f"firing {number} has been silent for {waited:.0f} s") from None
    fired = _fired(round_)
    known = {fed.crawlid for fed in round_.fed}
    new = [each["crawlid"] for each in fired if each["crawlid"] not in known]
    if (len(fired), len(new)) != (number, 1):
        raise RoundFailed(f"{number} firings were asked for, and told as {fired}")
    truth = expected_pages(round_.cluster.web, Rules(maxdepth=0), seed_url=seed)
    return FedCrawl(crawlid=new[0], delivered=truth.delivered, redirected=len(truth.redirected))
