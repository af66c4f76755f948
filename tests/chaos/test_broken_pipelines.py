"""A pipeline that really breaks a law is found by the auditor, from what it has left in its store.

Each runs with others that keep the law, and is killed or frozen where that matters.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.broken_pipeline import (
    BREAKS,
    BREAKS_OF_SEARCH,
    BREAKS_OF_TABLES,
    run,
    values,
    visits,
)
from crawlstream_chaos.facts.facts import Facts, FedCrawl, TopicRecord
from crawlstream_chaos.laws.pipeline_stores import LAWS
from crawlstream_chaos.pipelines.delta_log import DeltaLog
from crawlstream_chaos.pipelines.described import Reader
from crawlstream_chaos.pipelines.iceberg_log import IcebergLog
from crawlstream_chaos.pipelines.search_reader import SearchReader
from crawlstream_chaos.pipelines.store_reader import StoreReader
from crawlstream_chaos.pipelines.table_reader import TableReader
from support.pipelines.search_server import search_server
from support.pipelines.targets import Writing
from support.waiting import WaitUntil

NEEDS_AN_EVENT = ("a delivery is reported",)
"""Runs have no endings here."""
CAUGHT = {
    "commit-first": "each page is stored once",
    "put-first": "segments follow each other",
    "claim-anyway": "segments follow each other",
    "drop-nul": "each page is stored once",
}
FROZEN_AT = {"put-first": "before_put:stop:2"}
OF_FILES, OF_DELTA, OF_ICEBERG, OF_SEARCH = "jsonl.zst", "delta", "iceberg", "search"
OF_TABLES = (OF_DELTA, OF_ICEBERG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pipeline writes the topic."""

    folder: Path
    which: str = OF_FILES
    url: str = ""
    """URL of a search server."""

    def start(self, *, segment: int, **env: str) -> Writing:
        """A pipeline that writes the topic."""
        about = {
            "PLACE": self.url or str(self.folder / "out"),
            "WHICH": self.which,
            "SPOOL": str(self.folder / "spool"),
            "CATALOG": str(self.folder / "catalog.db"),
            "SEGMENT": str(segment),
        }
        return Writing({**about, **env}, run)

    def reader(self) -> Reader:
        """Reads the store."""
        out, well = self.folder / "out", range(200, 201)
        if self.which == OF_SEARCH:
            return SearchReader("p", self.url, "pages")
        if self.which == OF_DELTA:
            return TableReader("p", out, DeltaLog(out), statuses=well)
        if self.which == OF_ICEBERG:
            log = IcebergLog(self.folder / "catalog.db", "web.pages")
            return TableReader("p", out, log, statuses=well)
        return StoreReader("p", out / "p" / "edition=1", statuses=well)

    def broken_laws(self) -> set[str]:
        """Return the violations that the auditor finds in store and topic."""
        told = [_told(value) for value in (visits if self.which == OF_SEARCH else values)()]
        pages = [
            TopicRecord(topic="crawled_firehose", key=None, value=v, partition=0, offset=n, at=0)
            for n, v in enumerate(told)
            if v is not None
        ]
        places = [f"t-0-{n}" for n, value in enumerate(told) if value is None]
        facts = Facts(
            fed=[FedCrawl(crawlid="job", delivered={})],
            records=pages,
            stores=[self.reader().read({0: len(told)})],
            unreadable=places,
            undelivered=frozenset(f"p:1:{place}" for place in places),
        )
        return {
            name for name, law in LAWS.items() if name not in NEEDS_AN_EVENT and list(law(facts))
        }


def _told(value: bytes) -> Any:
    """A result; None where it is none."""
    try:
        told = orjson.loads(value)
    except ValueError:
        return None
    return told if "id" in told else None


async def write_beside_one_that_is_frozen(
    place: Place, wait_until: WaitUntil, name: str = ""
) -> None:
    """A pipeline freezes at a segment; another one writes all in longer ones; both continue."""
    step = {OF_FILES: "before_claim", OF_SEARCH: "before_write"}.get(place.which, "before_commit")
    at = FROZEN_AT.get(name, f"{step}:stop:2")
    with place.start(segment=6, FAILPOINT=at, BREAK=name) as frozen:
        await wait_until(lambda: frozen.is_frozen)
        with place.start(segment=20) as other:
            assert other.wait() == 0
        frozen.thaw()
        frozen.wait()


async def write_after_one_that_is_killed(place: Place, name: str = "") -> None:
    """A pipeline dies with a segment half done, and another one continues."""
    step = "after_rows" if place.which == OF_SEARCH else "before_claim"
    with place.start(segment=20, FAILPOINT=f"{step}:kill:2", BREAK=name) as killed:
        assert killed.wait() == -signal.SIGKILL
    with place.start(segment=20, BREAK=name) as other:
        assert other.wait() == 0


async def test_whoever_keeps_to_them_breaks_no_law(tmp_path: Path, wait_until: WaitUntil) -> None:
    """Pipelines run for the same time, without a break."""
    with search_server() as (server, url):
        places = [
            Place(folder=tmp_path / which, which=which, url=url * (which == OF_SEARCH))
            for which in (OF_FILES, *OF_TABLES, OF_SEARCH)
        ]
        for place in places:
            place.folder.mkdir()
            await write_beside_one_that_is_frozen(place, wait_until)
            assert place.broken_laws() == set()
        server.indexes.clear()
        for place in (Place(folder=tmp_path / "killed"), places[-1]):
            await write_after_one_that_is_killed(place)
            assert place.broken_laws() == set()


@pytest.mark.parametrize("name", BREAKS)
async def test_a_pipeline_that_breaks_a_law_is_caught(
    name: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """The auditor names the law that it breaks."""
    place = Place(folder=tmp_path)
    if name in {"put-first", "claim-anyway"}:
        await write_beside_one_that_is_frozen(place, wait_until, name)
    else:
        await write_after_one_that_is_killed(place, name)
    assert CAUGHT[name] in place.broken_laws()


@pytest.mark.parametrize("which", OF_TABLES)
@pytest.mark.parametrize("name", BREAKS_OF_TABLES)
async def test_a_pipeline_that_breaks_a_law_of_tables_is_caught(
    name: str, which: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """The auditor reads the table as its log has it."""
    place = Place(folder=tmp_path, which=which)
    await write_beside_one_that_is_frozen(place, wait_until, name)
    assert "each page is stored once" in place.broken_laws()


@pytest.mark.parametrize("name", BREAKS_OF_SEARCH)
def test_a_pipeline_that_breaks_a_law_of_documents_is_caught(name: str, tmp_path: Path) -> None:
    """The auditor reads the index as any client does."""
    with search_server() as (_, url):
        place = Place(folder=tmp_path, which=OF_SEARCH, url=url)
        with place.start(segment=20, BREAK=name) as broken:
            assert broken.wait() == 0
        assert "each document is the newest page" in place.broken_laws()
