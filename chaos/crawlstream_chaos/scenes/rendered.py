"""A crawl of a web whose links scripts make: browsers make every page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from crawlstream.tasks import wait_until
from crawlstream.throttle.edit import DEFAULT, ThrottleEditor
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.rounds import Round, RoundResult, rate_for

Script = Callable[[Round], Awaitable[None]]

BOUND, WANTED = 4, 6
"""Further requests that a page may bring, and those that its script would send."""
_PAGES, _LONG_PAGES = 120, 500
_HOSTS = 5
_KNOWN_S = 2.0
"""By then every crawler has looked at the rules."""


async def play_rendered(round_: Round, script: Script, *, rate: float) -> RoundResult:
    """A round on a web of its own; that no page brings more than it may is a law of it, too.

    ``rate``: requests a host and second until the script is done; 0: so that the web lasts for the
    round.
    """
    cluster = round_.cluster
    pages = _LONG_PAGES if round_.is_long else min(_PAGES, len(cluster.web.pages))
    await _bind(cluster)
    shape = {
        "pages": pages, "hosts": min(_HOSTS, len(cluster.web.hosts)), "further": WANTED,
        "slow_pages": pages // 10,
    }  # fmt: skip
    round_.render, round_.fields = BOUND, {"render": True}
    async with cluster.another_web(**shape):
        return await round_.play(script, rate=rate or rate_for(round_))


async def _bind(cluster: ChaosCluster) -> None:
    """Let pages bring so much from now on; returns when every crawler knows."""
    settings = cluster.settings
    editor = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    await editor.set_rule(DEFAULT, render=BOUND)

    async def is_copied() -> bool:
        table = await cluster.frontier.rules.table()
        return table is not None and table.default.render == BOUND

    await wait_until(is_copied, timeout_s=60, every_s=0.2)
    await asyncio.sleep(_KNOWN_S)
