"""Visits of a memory in a PostgreSQL whose clock jumps by days, forwards and back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Record
from crawlstream.model.request import RequestLimits
from crawlstream.plugins.seeds import seed_fed
from crawlstream.wire import jsontext
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.memory.sql.visits import VisitClaim, VisitStore
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_visits
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.visit_requests import encode_visits
from support.pipelines import writer
from support.pipelines.results import record
from support.pipelines.targets import select

PAGES = 3
DAY_S = 86_400
OFF = (3, 30, -3, -30)
"""Days by which the clock is off: within what an occasion may be off, and beyond."""


class Memory:
    """A memory of three pages; the time of its database is what the test says it is."""

    def __init__(self, url: str, asked: Pipeline) -> None:
        self._url = url
        self._asked = asked
        self.stores: list[VisitStore] = []
        # Names are looked up here before they are in the server's own catalog.
        name = url.rpartition("/")[2]
        self._do(f'alter database "{name}" set search_path = public, pg_catalog')

    def set_clock(self, days: float) -> None:
        """Set the clock off by that number of days."""
        self._do(
            "create or replace function public.now() returns timestamptz language sql stable as"
            f" $$ select pg_catalog.now() + interval '{days * DAY_S} seconds' $$"
        )

    def now(self) -> float:
        """The time of the database."""
        return float(select(self._url, "select extract(epoch from now()) as it")[0]["it"])

    async def learn(self, folder: Path) -> None:
        """Have it know the pages, all of which are due."""
        async with writer.sink_of(self._asked, folder) as sink:
            await sink.position(writer.TOPIC, 0)
            seen_at = time.time() - 60 * DAY_S
            pages = [record(n, url=f"http://a.com/{n}", timestamp=seen_at) for n in range(PAGES)]
            batch = writer.batch_of(pages)
            await sink.write(batch, judge(self._asked, batch), Liveness("w"))

    def store(self) -> VisitStore:
        """Environment of its own process."""
        assert isinstance(self._asked.sink, PagesSink)
        self.stores.append(open_visits(self._asked, self._asked.sink))
        return self.stores[-1]

    def _do(self, statement: str) -> None:
        select(self._url, statement)


@pytest.fixture
async def memory(
    postgres_server: RunningPostgres, fresh_name: str, tmp_path: Path
) -> AsyncIterator[Memory]:
    """In a database of this test's own."""
    url = postgres_server.make_database(fresh_name)
    text = (
        f'[pipeline.news]\nsink = {{kind = "pages", url = "{url}", signature = "body"}}\n'
        '[pipeline.news.visits]\nbase = "1h"\nin_flight = 3\n'
    )
    memory = Memory(url, read(text, {})["news"])
    await memory.learn(tmp_path / "spool")
    yield memory
    for store in memory.stores:
        store.close()


def urls(claim: VisitClaim) -> Sequence[str]:
    """The URLs of a claim, each of which is taken as a request of this moment."""
    for value in encode_visits(claim.crawl, claim.visits):
        fields: Any = jsontext.loads(value)
        seed_fed(fields, Record("in", 0, 0, int(time.time() * 1000), None, value), RequestLimits())
    return [visit.url for visit in claim.visits]


@pytest.mark.parametrize("is_fed", [True, False])
async def test_a_clock_that_jumps_by_days_stops_no_visits(memory: Memory, *, is_fed: bool) -> None:
    """Visits all pages once the clock is right, under an occasion that no claim had before."""
    occasions = list[int]()
    for days in OFF:
        memory.set_clock(days)
        assert memory.now() == pytest.approx(time.time() + days * DAY_S, abs=60)
        wrong = claimed(memory.store())
        if is_fed:
            memory.stores[-1].fed(wrong)
            occasions.append(wrong.crawl.at)
        memory.set_clock(0)
        claim = claimed(memory.store())
        assert len(urls(claim)) == PAGES, days
        memory.stores[-1].fed(claim)
        occasions.append(claim.crawl.at)
    assert len(set(occasions)) == len(occasions), occasions


def claimed(store: VisitStore) -> VisitClaim:
    """Claims after an operator has all pages visited."""
    store.visit_now([page.key for page in store.due(PAGES)])
    claim = store.claim(f"feeder {id(store)}")
    assert claim is not None
    return claim
