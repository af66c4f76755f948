"""Crawls during a script that visit the same pages again and again: there, gone, and back.

A search index keeps the newest result of each page. The site answers by the crawl's User-Agent, so
a page that a crawler repeats after a crash is as it was.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress

from crawlstream_chaos.facts.facts import FedCrawl
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scenes.companions import have_ended
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, SeenRequest, serving

_HOSTS = [f"127.89.0.{number}" for number in range(1, 9)]
_THERE, _GONE = "finds", "misses"
"""User-Agents of the crawls."""
_MOST = 16
"""Crawls over the seconds of a round."""
_FEED_EVERY_S = 4.0


async def revisit_beside(round_: Round, is_over: asyncio.Event) -> None:
    """Feed a crawl of one page of each host after the other; in turn, they are there and gone."""
    pause_s = max(_FEED_EVERY_S, round_.seconds / _MOST)
    with serving({"/page": _answer}) as site:
        fed: list[FedCrawl] = []
        for number in itertools.count():
            fed.append(await _feed(round_, site, number))
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), pause_s)
                break
        await have_ended(round_, fed)


async def _feed(round_: Round, site: CrawlerSite, number: int) -> FedCrawl:
    """Every second crawl finds no page any more; half of the hosts take part in each."""
    agent, status = (_GONE, 410) if number // 2 % 2 else (_THERE, 200)
    urls = [site.url("/page", host) for host in _HOSTS[number % 2 :: 2]]
    fed = FedCrawl(
        crawlid=f"{round_.name}-revisit-{number}-{site.port}",
        delivered=dict.fromkeys(urls, status),
        runs=len(urls),
    )
    await round_.feed(fed, *urls, maxdepth=0, priority=90, useragent=agent)
    return fed


def _answer(visit: SeenRequest) -> Answer:
    if visit.headers.get("user-agent") == _GONE:
        return Answer(b"gone", status=410)
    text = f"<p>{visit.host} is there</p>" * 40  # Long enough for archives to store it once.
    return Answer(text.encode(), headers=HTML)
