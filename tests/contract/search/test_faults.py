"""Requests to a search server that fail, hang or grow too large."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

from crawlstream.plugins.sinks import RowsRefused, SinkUnavailable
from crawlstream.retry import Backoff
from pipeline_service.contract import row, rows_of
from support.pipelines.results import page_id
from support.pipelines.search_server import SearchServer
from support.pipelines.searching import SPEC, ids, opened, placed, standing, written_in_batches
from support.pipelines.targets import documents_of


def test_a_late_write_does_not_bring_back_a_deleted_document(
    server: SearchServer, url: str
) -> None:
    """Does not bring back a deleted document by a write within a day of the delete."""
    with closing(opened(url)) as store:
        store.put([placed(0, 10), placed(1, 11, is_gone=True)])
        server.indexes["pages"].now += 24 * 3600
        store.put([placed(0, 10)])
        assert documents_of(url) == {}


@pytest.mark.parametrize("status", [429, 503, 500, 409])
def test_items_that_are_not_taken_now_are_written_again(
    status: int, server: SearchServer, url: str
) -> None:
    """The rest of their request is written; so for a conflict that is not about versions."""
    spec = SPEC
    rows = rows_of(spec, 3)
    with closing(opened(url)) as store:
        server.item_fault = lambda _, key: status if key == rows[1].key else None
        with pytest.raises(SinkUnavailable, match=f"{status}: rejected_execution_exception"):
            store.put(rows)
        server.item_fault = lambda *_: None
        store.put(rows)
    assert set(documents_of(url)) == {each.key for each in rows}


@pytest.mark.parametrize("fault", ["lost", "cut", 429, 503])
async def test_any_request_may_fail(
    fault: str | int, server: SearchServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fails in turn, before its effect or after it: each page is there once, and counted."""
    monkeypatch.setattr(Backoff, "__next__", lambda _: 0.0)
    total = 0
    for failing in range(1_000):
        seen = 0

        def nth(_method: str, _path: str, failing: int = failing) -> str | int | None:
            nonlocal seen
            seen += 1
            return fault if seen == failing + 1 else None

        server.indexes.clear()
        server.fault = nth
        table = f'kind = "search", url = "{url}", document = "visit"'
        await written_in_batches(table)
        server.fault = lambda *_: None
        assert ids(url) == Counter(page_id(n) for n in range(6)), failing
        where = standing(table)
        assert (where.position, where.account.total.delivered) == (6, 6), failing
        total = max(total, seen)
        if failing >= seen:
            break
    assert total > 15


def test_requests_stay_within_the_limits(server: SearchServer, url: str) -> None:
    """10 MiB and 1000 documents; where a server takes less, halves are sent."""
    spec = SPEC
    rows = [row(spec, n, "x" * 1_500_000) for n in range(8)]
    with closing(opened(url)) as store:
        store.put(rows)
        store.put(rows_of(spec, 1001))
        sizes = [size for _, path, size in server.requests if path.endswith("_bulk")]
        assert len(sizes) == 4
        assert max(sizes) <= 10 << 20
        server.max_bytes = 2_000_000
        with pytest.raises(RowsRefused, match="entity is too large") as caught:
            store.put([*rows[:3], row(spec, 2000, "x" * 3_000_000)])
    assert list(caught.value.keys) == [f"{spec.pipeline}:2000"]


def test_a_call_that_hangs_can_be_interrupted(server: SearchServer, url: str) -> None:
    """It fails, and so does each one until the store is opened again."""
    store = opened(url)

    def hang(*_: str) -> None:
        store.interrupt()

    server.fault = hang
    with pytest.raises(SinkUnavailable):
        store.put(rows_of(SPEC, 1))
    server.fault = lambda *_: None
    with pytest.raises(SinkUnavailable, match="too long"):
        store.read("")
    with closing(store):
        store.open()
        assert store.read("") == {}


def test_texts_that_fill_many_answers_are_all_read(server: SearchServer, url: str) -> None:
    """Texts of this owner, also from Elasticsearch, which refuses the preference _primary."""
    with closing(opened(url)) as store, closing(opened(url, owner="q:1")) as other:
        assert other.swap("a/1", None, "other")
        texts = {f"a/{n}": f"{n}" for n in range(450)}
        for name, text in texts.items():
            assert store.swap(name, None, text)
        assert other.read("") == {"a/1": "other"}
        server.distribution = None
        store.open()
        assert store.read("a/") == texts
