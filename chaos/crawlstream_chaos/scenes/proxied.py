"""A crawl of which every page goes through one of twenty proxies, which fail in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from crawlstream.egress.edit import DEFAULT, PoolEditor
from crawlstream.model.egress.pools import DIRECT
from crawlstream.tasks import wait_until
from crawlstream_chaos.faults import Fault, FaultContext, FaultEffect, Inject
from crawlstream_chaos.rounds import Round, RoundResult
from crawlstream_chaos.scenes.web_proxy import FAILING, Mood, WebProxy
from crawlstream_cli.local.ports import free_block

PROXIES = 20
POOL = "chaos"
_REST_S = 5
_AT_ONCE = PROXIES // 2
"""More do not fail at a time, but for when all of them do."""
_PAUSE_S = (0.5, 2.0)
_GONE_S, _LONG_GONE_S = 10.0, 60.0
_KNOWN_S = 3.0
"""By then every crawler has looked at the pools."""


async def play_proxied(round_: Round, *, rate: float) -> RoundResult:
    """A round through proxies; that every page came through one is a law of it, too."""
    async with _proxies(round_) as proxies:
        round_.pool = POOL
        for proxy in proxies:
            proxy.seen = round_.by_proxies
        return await round_.play(partial(_lose_proxies, proxies), rate=rate)


@asynccontextmanager
async def _proxies(round_: Round) -> AsyncIterator[Sequence[WebProxy]]:
    """The pool of all crawls for a block."""
    settings, frontier = round_.cluster.settings, round_.cluster.frontier
    editor = PoolEditor(settings.zookeeper_hosts, settings.proxies_path)
    port = free_block(PROXIES)
    proxies = [WebProxy(port + number) for number in range(PROXIES)]
    lines = [{"url": f"http://127.0.0.1:{proxy.port}"} for proxy in proxies]

    async def use(pool: str) -> None:
        written = await editor.use(DEFAULT, pool)

        async def is_copied() -> bool:
            table = await frontier.pools.table()
            return table is not None and table.mzxid >= written.mzxid

        await wait_until(is_copied, timeout_s=60, every_s=0.2)
        await asyncio.sleep(_KNOWN_S)

    for proxy in proxies:
        await proxy.start()
    try:
        await editor.set_pool(POOL, lines, policy={"rest": _REST_S, "disabled": False})
        await use(POOL)
        yield proxies
        await use(DIRECT)
        await editor.remove_pool(POOL)
    finally:
        for proxy in proxies:
            await proxy.stop()


async def _lose_proxies(proxies: Sequence[WebProxy], round_: Round) -> None:
    """Let proxies fail and recover in turn; twice all are unavailable."""
    await round_.feed_front_page()
    await wait_until(lambda: round_.came > 0, timeout_s=120, every_s=0.2)
    context = round_.context
    all_gone = [round_.seconds / 3, 2 * round_.seconds / 3]
    while not round_.is_over() and time.monotonic() < round_.began + round_.seconds:
        await asyncio.sleep(context.between(*_PAUSE_S))
        if all_gone and time.monotonic() > round_.began + all_gone[0]:
            del all_gone[0]
            await round_.strike(_fault("all-proxies-gone", partial(_all_gone, proxies)), context)
        else:
            await _change_one(proxies, round_, context)
    for proxy in proxies:
        await proxy.become("well")


async def _change_one(proxies: Sequence[WebProxy], round_: Round, context: FaultContext) -> None:
    failing = [proxy for proxy in proxies if proxy.mood != "well"]
    if len(failing) >= _AT_ONCE or (failing and context.random.random() < 0.4):
        await context.random.choice(failing).become("well")
        return
    proxy = context.random.choice([proxy for proxy in proxies if proxy.mood == "well"])
    mood = context.random.choice(FAILING)
    await round_.strike(_fault(f"{mood}-proxy", partial(_fail, proxy, mood)), context)


def _fault(name: str, inject: Inject) -> Fault:
    return Fault(name, "", inject)


async def _fail(proxy: WebProxy, mood: Mood, _context: FaultContext) -> FaultEffect:
    await proxy.become(mood)
    return FaultEffect(f"proxy {proxy.port}")


async def _all_gone(proxies: Sequence[WebProxy], context: FaultContext) -> FaultEffect:
    for proxy in proxies:
        await proxy.become("dead")
    await asyncio.sleep(_LONG_GONE_S if context.is_long else _GONE_S)
    for proxy in proxies:
        await proxy.become("well")
    return FaultEffect(f"{len(proxies)} proxies")
