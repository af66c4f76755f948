"""A crawl that pays: leaves of its web cost money, and a purse pays for as many as it can."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crawlstream.model.words.price import price_in
from crawlstream.tasks import beside
from crawlstream_chaos.facts.facts import APP
from crawlstream_chaos.purse_watch import LATE_S, PurseWatch
from crawlstream_chaos.rounds import Round, RoundResult, rate_for
from crawlstream_cli.demo.access_log import LoggedRequest
from crawlstream_cli.demo.web import Web
from crawlstream_frontier.egress.purse import Purse

Script = Callable[[Round], Awaitable[None]]

PURSE = "chaos"
_SCARCE, _AMPLE = 0.6, 1.5
"""Budgets by the sum of all prices: by turns too small, and enough to pay pages again."""
_LONG_LATE_S = 40.0


def prices_of(web: Web) -> dict[str, int]:
    """Return the price of each page that has one, in millionths, by its URL."""
    found = {web.url(page): price_in(web.price(page)) for page in web.pages}
    return {url: price.millionths for url, price in found.items() if price}


async def play_paid(round_: Round, script: Script, *, rate: float) -> RoundResult:
    """A round on a web of its own, the budget of whose purse is a law of it, too."""
    cluster = round_.cluster
    async with cluster.another_web(priced=1):
        prices = prices_of(cluster.web)
        budget = int(sum(prices.values()) * (_SCARCE if round_.seed % 2 else _AMPLE))
        purse = Purse(name=PURSE, currency="USD", day=budget, total=budget, apps=(APP,))
        log = cluster.site_log

        def visits() -> Sequence[LoggedRequest]:
            log.read()
            return log.visits

        watch = PurseWatch(
            lambda: cluster.frontier.root.purses,
            visits,
            purse=purse,
            prices=prices,
            late_s=_LONG_LATE_S if round_.is_long else LATE_S,
        )
        await watch.open()
        round_.watch, round_.fields = watch, {"purse": PURSE}
        async with beside(watch.run()):
            return await round_.play(script, rate=rate or rate_for(round_))
