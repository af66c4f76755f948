"""Crawls during a script whose clients wait for each page: small, and of the highest priority."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import replace
from random import Random

from crawlstream_chaos.rounds import Round

_SEEDS_EACH = 3
_MOST = 25
"""Crawls over the seconds of a round."""
_FEED_EVERY_S = 1.0
_FIRST = 100


async def answer_beside(round_: Round, is_over: asyncio.Event) -> None:
    """Feed seeds with `answer: page` all the while, as a client that scrapes does.

    A reader that is struck between two seeds may leave each of them a run of its own.
    """
    urls, random = round_.cluster.plain_urls(), Random(f"{round_.seed}/answers")
    pause_s = max(_FEED_EVERY_S, round_.seconds / _MOST)
    for number in itertools.count():
        fed = round_.crawl_of(f"answers-{number}", random.sample(urls, _SEEDS_EACH))
        waiting = {f"{fed.crawlid}-{n}": url for n, url in enumerate(fed.delivered)}
        fed = replace(fed, runs=_SEEDS_EACH, waiting=waiting)
        for uuid, url in waiting.items():
            wanted = {"maxdepth": 0, "priority": _FIRST, "uuid": uuid, "answer": "page"}
            await round_.feed(fed, url, **wanted)
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), pause_s)
            return
