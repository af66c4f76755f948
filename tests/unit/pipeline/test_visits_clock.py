"""Visits of a memory while the clock of its database is wrong, and after that."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Record
from crawlstream.model.request import RequestLimits
from crawlstream.plugins.seeds import seed_fed
from crawlstream.wire import jsontext
from pipeline_service.memory.sql.visits import VisitClaim, VisitStore
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_visits
from pipeline_service.sinks.sql import sqlite
from pipeline_service.spec.config import read
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.visit_requests import encode_visits
from support.pipelines import writer
from support.pipelines.results import record

NOW = time.time()
DAY_S = 86_400
PAGES = 3


@pytest.fixture
async def visits(tmp_path: Path) -> AsyncIterator[VisitStore]:
    """The visits of a memory of three pages that are all due."""
    text = (
        f'[pipeline.news]\nsink = {{kind = "pages", url = "sqlite:///{tmp_path}/m.db",'
        ' signature = "body"}\n'
        '[pipeline.news.visits]\nbase = "1h"\nin_flight = 3\n'
    )
    asked = read(text, {})["news"]
    async with writer.sink_of(asked, tmp_path / "s") as sink:
        await sink.position(writer.TOPIC, 0)
        pages = [
            record(n, url=f"http://127.0.0.7:8080/{n}", timestamp=NOW - 2 * DAY_S)
            for n in range(PAGES)
        ]
        batch = writer.batch_of(pages)
        await sink.write(batch, judge(asked, batch), Liveness("w"))
    assert isinstance(asked.sink, PagesSink)
    store = open_visits(asked, asked.sink)
    yield store
    store.close()


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set what the database takes for the time."""

    def set_to(at: float) -> None:
        monkeypatch.setattr(sqlite, "time", type("Clock", (), {"time": staticmethod(lambda: at)}))

    return set_to


def urls(claim: VisitClaim | None, at: float) -> Sequence[str]:
    """The URLs of a claim, each of which is taken as a request of that time."""
    if claim is None:
        return []
    for value in encode_visits(claim.crawl, claim.visits):
        kafka_record = Record("in", 0, 0, int(at * 1000), None, value)
        fields: Any = jsontext.loads(value)
        seed_fed(fields, kafka_record, RequestLimits())
    return [visit.url for visit in claim.visits]


@pytest.mark.parametrize("days", [3, 30])
@pytest.mark.parametrize("is_fed", [True, False])
async def test_all_pages_are_visited_as_soon_as_the_clock_is_right_again(
    visits: VisitStore, set_clock: Callable[[float], None], *, is_fed: bool, days: int
) -> None:
    """A clock that was days ahead holds back no page, also by a claim that no process has fed."""
    set_clock(NOW + days * DAY_S)
    wrong = visits.claim("one")
    assert wrong is not None
    if is_fed:
        visits.fed(wrong)
    set_clock(NOW + 60)
    assert len(urls(visits.claim("another"), NOW + 60)) == PAGES


@pytest.mark.parametrize("off_s", [-3_600, 3_600, -30 * DAY_S, 30 * DAY_S])
async def test_each_claim_has_an_occasion_of_its_own_where_the_clock_jumps(
    visits: VisitStore, set_clock: Callable[[float], None], off_s: int
) -> None:
    """A clock that jumps and comes back repeats no occasion, whose pages would pass for known."""
    occasions = set[int]()
    for at in (NOW, NOW, NOW + off_s, NOW, NOW + off_s, NOW):
        set_clock(at)
        visits.visit_now([page.key for page in visits.due(PAGES)])
        claim = visits.claim("one")
        assert len(urls(claim, at)) == PAGES
        assert claim is not None
        occasions.add(claim.crawl.at)
        visits.fed(claim)
    assert len(occasions) == 6


async def test_the_turn_of_a_feeder_that_died_while_the_clock_was_ahead_ends(
    visits: VisitStore, set_clock: Callable[[float], None]
) -> None:
    """A claim is another's to feed at once if its turn ends later than any turn may."""
    set_clock(NOW + 3_600)
    assert visits.claim("one") is not None
    set_clock(NOW)
    assert len(urls(visits.claim("another"), NOW)) == PAGES


@pytest.mark.parametrize("days", [1, 8, 30])
async def test_a_claim_that_nobody_has_fed_in_time_is_made_anew(
    visits: VisitStore, set_clock: Callable[[float], None], days: int
) -> None:
    """Feeders that were away for days feed no requests that have expired, or are refused.

    A clock that was days behind for a moment leaves such a claim, too.
    """
    set_clock(NOW - days * DAY_S)
    visits.visit_now([page.key for page in visits.due(PAGES)])
    old = visits.claim("one")
    assert old is not None
    set_clock(NOW)
    claim = visits.claim("another")
    assert len(urls(claim, NOW)) == PAGES
    assert claim is not None
    assert claim.crawl.expires > NOW
    assert claim.crawl.at != old.crawl.at
