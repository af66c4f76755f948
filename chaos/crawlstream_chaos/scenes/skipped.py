"""Crawls during a script of sites with a family of URLs that the waste guard has refused.

The crawlers know that only after they have found the links, so these wait in the frontier and are
skipped when they are leased. Of another family, which is put last, a crawler asks for a made-up
neighbour with the grant of a page, which it gives back; it may die in between.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from zlib import crc32

from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.facts.facts import APP, FedCrawl
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scenes.companions import have_ended
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
from crawlstream_frontier.waste.votes import run_hash
from crawlstream_frontier.worker.sketch_store import SketchWrite

_FAMILY, _LAST_FAMILY = "?sort", "/days/#"
_REFUSED, _PLAIN, _LAST = 60, 8, 12
"""Pages of a site: those of the refused family, others, and those of the family that is last."""
_FAR = 7_007
"""Numbers of made-up neighbours are not smaller."""
_MOST = 6
"""Crawls over the seconds of a round."""
_FEED_EVERY_S = 2.0


async def skip_beside(round_: Round, is_over: asyncio.Event) -> None:
    """Feed a crawl after the other, each of a site of its own, and wait for their ends."""
    pause_s = max(_FEED_EVERY_S, round_.seconds / _MOST)
    fed: list[FedCrawl] = []
    with _site() as site:
        for number in itertools.count(1):
            host = f"127.88.0.{number}"
            crawl = _crawl_of(round_, site, host)
            run = run_hash(CrawlKey(crawl.spiderid, APP, crawl.crawlid), 1)
            await round_.cluster.observed.ask(partial(_plant, host=host, run=run))
            fed.append(crawl)
            await round_.feed(crawl, site.url("/", host), maxdepth=1, guard="on")
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), pause_s)
                break
        await have_ended(round_, fed)


@contextmanager
def _site() -> Iterator[CrawlerSite]:
    """Serve the same pages on each address; those of the family are equal."""
    plain = [f"/plain/{n}" for n in range(_PLAIN)]
    pages = {path: page(text=f"the page {path}") for path in plain}
    refused = [f"/list/{n}?sort=up" for n in range(_REFUSED)]
    pages |= {path: page(text="the same list") for path in refused}
    days = [f"/days/{n}" for n in range(_LAST)]
    # No page links to the far ones, and they are there.
    far = [f"/days/{n * 1000 + _FAR}" for n in range(_LAST)]
    pages |= {path: page(text="no events") for path in (*days, *far)}
    with serving({"/": page(*refused, *plain, *days), **pages}) as site:
        yield site


def _crawl_of(round_: Round, site: CrawlerSite, host: str) -> FedCrawl:
    linked = [path for path in site.pages if not _is_made_up(path)]
    urls = {site.url(path, host) for path in linked}
    may_be_skipped = frozenset(url for url in urls if "?" in url or "/days/" in url)
    return FedCrawl(
        crawlid=f"{round_.name}-skips-{host}-{site.port}",
        delivered=dict.fromkeys(urls - may_be_skipped, 200),
        may_be_skipped=may_be_skipped,
    )


def _is_made_up(path: str) -> bool:
    return path.startswith("/days/") and int(path.rpartition("/")[2]) >= _FAR


async def _plant(frontiers: Frontiers, host: str, run: int) -> None:
    """Store a sketch by which a run has refused a family, and another one wants a neighbour."""
    family = Family(key=family_hash(_FAMILY), counts=YieldCounts(), state=FamilyState.REFUSED)
    counts = YieldCounts(pages=600, heavy=600)
    last = Family(key=family_hash(_LAST_FAMILY), counts=counts, state=FamilyState.LAST)
    sketch = Sketch()
    sketch.main, sketch.pages = crc32(host.encode()) & 0xFFFF, 1_000
    sketch.families = FamilyTable([family, last])
    sketch.runs = [run]
    store = frontiers.of(host).sketches
    (before,) = await store.read([host])  # That of an earlier round.
    await store.replace([SketchWrite(host, before, pack(sketch, serial_of(before) + 1))])
