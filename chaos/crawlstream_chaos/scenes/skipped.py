"""Crawls during a script of sites with a family of URLs that the waste guard has refused.

The crawlers know that only after they have found the links, so these wait in the frontier and are
skipped when they are leased.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from crawlstream.tasks import wait_until
from crawlstream_chaos.facts.facts import FedCrawl, has_ended
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.packing import pack, serial_of
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.worker.sketch_store import SketchWrite

_FAMILY = "?sort"
_REFUSED, _PLAIN = 60, 8
"""Pages of a site: those of the refused family, and others."""
_MOST = 6
"""Crawls over the seconds of a round."""
_FEED_EVERY_S = 2.0
_ENDED_S = 240


async def skip_beside(round_: Round, is_over: asyncio.Event) -> None:
    """Feed a crawl after the other, each of a site of its own, and wait for their ends."""
    pause_s = max(_FEED_EVERY_S, round_.seconds / _MOST)
    fed: list[FedCrawl] = []
    with _site() as site:
        for number in itertools.count(1):
            host = f"127.88.0.{number}"
            await round_.cluster.observed.ask(partial(_plant, host=host))
            crawl = _crawl_of(round_, site, host)
            fed.append(crawl)
            await round_.feed(crawl, site.url("/", host), maxdepth=1, guard="on")
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), pause_s)
                break
        records = round_.cluster.recorder.crawl
        with suppress(TimeoutError):  # The auditor reports an ending that does not come.
            await wait_until(
                lambda: all(has_ended(each, records(each.crawlid)) for each in fed),
                timeout_s=_ENDED_S,
            )


@contextmanager
def _site() -> Iterator[CrawlerSite]:
    """Serve the same pages on each address; those of the family are equal."""
    plain = [f"/plain/{n}" for n in range(_PLAIN)]
    pages = {path: page(text=f"the page {path}") for path in plain}
    refused = [f"/list/{n}?sort=up" for n in range(_REFUSED)]
    pages |= {path: page(text="the same list") for path in refused}
    with serving({"/": page(*refused, *plain), **pages}) as site:
        yield site


def _crawl_of(round_: Round, site: CrawlerSite, host: str) -> FedCrawl:
    urls = {site.url(path, host) for path in site.pages}
    may_be_skipped = frozenset(url for url in urls if "?" in url)
    return FedCrawl(
        crawlid=f"{round_.name}-skips-{host}-{site.port}",
        delivered=dict.fromkeys(urls - may_be_skipped, 200),
        may_be_skipped=may_be_skipped,
    )


async def _plant(frontiers: Frontiers, host: str) -> None:
    """Store a sketch by which the family is refused."""
    family = Family(key=family_hash(_FAMILY), counts=YieldCounts(), state=FamilyState.REFUSED)
    sketch = Sketch()
    sketch.pages, sketch.families = 1_000, FamilyTable([family])
    # As if the crawl itself had refused it just now: it would try again what others have refused.
    sketch.changed = int(time.time()) + 3600
    store = frontiers.of(host).sketches
    (before,) = await store.read([host])  # That of an earlier round.
    await store.replace([SketchWrite(host, before, pack(sketch, serial_of(before) + 1))])
