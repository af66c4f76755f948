"""Write pages into a search index, and read them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.plugins.sinks import Row, SinkSpec
from pipeline_service.records.judging import Judged, Undeliverable, judge
from pipeline_service.sink_factory import open_kept
from pipeline_service.sinks.row_maker import columns_of
from pipeline_service.sinks.search.connection import SearchClient
from pipeline_service.sinks.search.search_store import DOCUMENT, DocumentPlace, SearchStore
from pipeline_service.sinks.sink import SinkPosition, SinkRefused
from support.pipelines import writer
from support.pipelines.results import record
from support.pipelines.targets import documents_of

COLUMNS = columns_of(None, with_body=False)
A, B, C = (f"http://127.0.0.7:8080/{name}" for name in "abc")
SPEC = SinkSpec(pipeline="p", edition=1, options={}, columns={})
"""For rows that are written without a pipeline."""


def opened(url: str, *, owner: str = "p:1", is_open: bool = True) -> SearchStore:
    """A store of the index ``pages``."""
    store = SearchStore(SearchClient(url), "pages", owner=owner, columns=COLUMNS)
    if is_open:
        store.open()
    return store


def placed(number: int, version: int, *, document: str = "x", is_gone: bool = False) -> Row:
    """A row of one document."""
    place = DocumentPlace(document, version, is_gone=is_gone)
    return Row(f"k{number}", number, {DOCUMENT: place, "url": f"{version}"})


async def store_pages(
    table: str, records: Sequence[bytes], more: str = "", at: int = 0
) -> list[Judged]:
    """Write records as the flow of a pipeline does; return those that were refused."""
    asked = writer.pipeline(table, more or "where = {}")
    batch = writer.batch_of(records, at)
    refused: list[Judged] = []
    async with writer.sink_of(asked, Path("unused")) as sink:
        await sink.position(writer.TOPIC, 0)
        judged = judge(asked, batch)
        while True:
            try:
                assert await sink.write(batch, judged, Liveness("write")) is None
            except SinkRefused as error:
                judged = error.without(judged)
            else:
                refused += [each for each in judged if isinstance(each, Undeliverable)]
                return refused


def standing(table: str) -> SinkPosition:
    """How far it has come."""
    kept = open_kept(load_settings(), writer.pipeline(table))
    with closing(kept):
        return kept.standings(writer.TOPIC, [0])[0]


def ids(url: str) -> Counter[str]:
    """The result that each document is of."""
    return Counter(found["id"] for found in documents_of(url).values())


async def written_in_batches(table: str) -> None:
    """Write six pages in three batches by one sink."""
    asked, records = writer.pipeline(table), [record(n) for n in range(6)]
    async with writer.sink_of(asked, Path("unused")) as sink:
        live = Liveness("write")

        async def begun() -> int | None:
            return await sink.position(writer.TOPIC, 0)

        at = await live.retry(begun) or 0
        while at < 6:
            batch = writer.batch_of(records[at : at + 2], at)
            elsewhere = await sink.write(batch, judge(asked, batch), live)
            at = at + 2 if elsewhere is None else elsewhere
