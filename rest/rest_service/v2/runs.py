"""``/v2``: the runs of a crawl, and the changes between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from crawlstream.errors import KafkaUnavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.run_history import Comparison, CrawlRun, RunHistory
from crawlstream.wire import views
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused, success
from rest_service.runs.compare import compare
from rest_service.runs.history import read_history
from rest_service.service import Service, TheClient, TheCrawl, TheService

router = APIRouter(prefix="/v2", tags=["runs"])

Number = Annotated[int | None, Query(ge=1)]


@dataclass(frozen=True, slots=True)
class Pair:
    """The two runs to compare."""

    key: CrawlKey
    """The crawl of the later run."""
    before_key: CrawlKey
    before: int | None
    after: int | None


async def _pair(
    key: TheCrawl,
    *,
    before: Annotated[Number, Query(description="Default: the run before `after`.")] = None,
    after: Annotated[Number, Query(description="Default: the latest run.")] = None,
    before_crawlid: Annotated[
        str | None, Query(description="Crawl of `before`, if it is another one.")
    ] = None,
) -> Pair:
    return Pair(
        key, CrawlKey(key.spiderid, key.appid, before_crawlid or key.crawlid), before, after
    )


ThePair = Annotated[Pair, Depends(_pair)]


@router.get("/crawl/runs", summary="Runs of a crawl")
async def runs(service: TheService, client: TheClient, key: TheCrawl) -> Response:
    """All runs that the events topic remembers, the latest first.

    If ``is_complete`` is false, there may be older runs: the latest 1 000 000 events were read, or
    as many as could be read in 30 s.
    """
    found = await history(service, client, key)
    return success(
        {"runs": [views.run(one) for one in found.runs], "is_complete": found.is_complete}
    )


@router.get("/crawl/compare", summary="Compare two runs")
async def compared(
    service: TheService,
    client: TheClient,
    pair: ThePair,
    *,
    limit: Annotated[int, Query(ge=1, le=1000, description="Listed pages per change.")] = 100,
) -> Response:
    """Pages that are new, gone, or have another status or another body.

    At most 100 000 pages of a run are compared. Of larger runs, a sample is compared; ``share`` is
    its part of all URLs. If ``is_complete`` is false, 60 s were not enough to read all results, and
    the missing ones count as new or gone.
    """
    return success(views.comparison(await comparison(service, client, pair, listed=limit)))


async def history(service: Service, client: Client, key: CrawlKey) -> RunHistory:
    """Return the runs of a crawl; raise RequestRefused (404) if none is known."""
    if not service.reach.kafka:
        raise KafkaUnavailable
    async with service.pages.of(client.name):
        found = await read_history(service.kafka, service.topics.events, key)
    if not found.runs:
        raise RequestRefused(404, f"No run of crawl {key.crawlid} found.", code="unknown_crawl")
    return found


async def comparison(service: Service, client: Client, pair: Pair, *, listed: int) -> Comparison:
    """Compare two runs; raise RequestRefused (404) if one of them is unknown."""
    before, after = await _chosen(service, client, pair)
    async with service.comparisons.of(client.name):
        return await compare(service.kafka, service.topics.crawled, before, after, listed=listed)


async def _chosen(service: Service, client: Client, pair: Pair) -> tuple[CrawlRun, CrawlRun]:
    known = await history(service, client, pair.key)
    after = known.find(pair.after)
    if after is None:
        raise _unknown(pair.after)
    if pair.before_key != pair.key:
        before = (await history(service, client, pair.before_key)).find(pair.before)
    else:
        before = known.find(pair.before) if pair.before else known.before(after.run)
    if before is None:
        raise _unknown(pair.before)
    return before, after


def _unknown(run: int | None) -> RequestRefused:
    if run is None:
        return RequestRefused(404, "There is no earlier run to compare with.", code="unknown_run")
    return RequestRefused(404, f"No run {run} found.", code="unknown_run")
