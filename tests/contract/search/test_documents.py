"""Documents of a search index are the newest pages, whatever comes twice or late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing

import pytest
from opensearchpy import OpenSearch

from crawlstream.plugins.sinks import Row, RowsRefused, SinkSpec
from pipeline_service.contract import IdempotentContract
from pipeline_service.records.judging import Undeliverable
from pipeline_service.sinks.search.search_store import DOCUMENT, DocumentPlace, SearchStore
from support.pipelines.results import page_id, record
from support.pipelines.searching import A, B, C, ids, opened, placed, standing, store_pages
from support.pipelines.targets import documents_of

T0 = 1795251154.0


class TestSearch(IdempotentContract):
    """An index of OpenSearch with a document for each result."""

    @pytest.fixture(autouse=True)
    def _place(self, opensearch_url: str) -> None:
        self.options = {"url": opensearch_url}

    def make(self, spec: SinkSpec) -> SearchStore:
        """As a pipeline makes it."""
        return opened(spec.options["url"], owner=f"{spec.pipeline}:{spec.edition}", is_open=False)

    def keys(self, spec: SinkSpec) -> Sequence[str]:
        """By a client library of others."""
        found = documents_of(spec.options["url"])
        return [key for key in found if key.startswith(spec.pipeline)]


def test_the_newest_version_of_a_document_wins_in_any_order(any_url: str) -> None:
    """Writes and deletes, by several processes, some of them twice, in one request or in several.

    A late one comes after the document was deleted, too.
    """
    chance = random.Random(7)
    with closing(opened(any_url)) as one, closing(opened(any_url, owner="q:1")) as other:
        expected: dict[str, dict[str, str]] = {}
        for turn in range(30):
            name = f"x{turn}"
            rows = [
                placed(n, 10 + n, document=name, is_gone=chance.random() < 0.4) for n in range(6)
            ]
            written = [*rows, *chance.sample(rows, 3)]
            chance.shuffle(written)
            for some in (written[:4], written[4:5], written[5:], rows[:1]):
                chance.choice([one, other]).put(some)
            last = rows[-1].fields[DOCUMENT]
            assert isinstance(last, DocumentPlace)
            expected |= {} if last.is_gone else {name: {"url": "15"}}
        assert documents_of(any_url) == expected


async def test_a_document_is_its_page_as_it_was_last_seen(any_url: str) -> None:
    """Later results replace it; 404, 410 and redirects delete it; errors and 304 are left out."""
    table = f'kind = "search", url = "{any_url}"'
    records = [
        record(1, url=A, timestamp=T0),
        record(2, url=B, timestamp=T0),
        record(3, url=C, timestamp=T0),
        record(4, url=A, timestamp=T0 + 9),
        record(5, url=A, timestamp=T0 + 5),
        record(6, url=B, timestamp=T0 + 6, status_code=500),
        record(7, url=B, timestamp=T0 + 7, status_code=304),
        record(8, url=B, timestamp=T0 + 8, method="POST"),
    ]
    await store_pages(table, records)
    assert ids(any_url) == Counter([page_id(n) for n in (2, 3, 4)])
    account = standing(table).account.total
    assert (account.read, account.delivered, account.filtered) == (8, 5, {"document": 3})
    later = [
        record(9, url=B, timestamp=T0 + 20, status_code=410),
        record(10, url="http://127.0.0.7:8080/new", timestamp=T0 + 20, redirect_urls=[C]),
        record(11, url=A, timestamp=T0 + 1, status_code=404),
    ]
    await store_pages(table, later, at=8)
    assert ids(any_url) == Counter([page_id(n) for n in (4, 10)])
    banned = record(12, url=A, timestamp=T0 + 30, directives=["noindex"])
    await store_pages(table, [banned], 'respect = ["noindex"]\nwhere = {}', at=11)
    assert ids(any_url) == Counter([page_id(10)])
    (found,) = documents_of(any_url).values()
    assert found["attrs"] == {"k": [1, None]}
    assert found["timestamp"].startswith("2026-11-21T")
    assert "body" not in found


async def test_documents_that_the_server_refuses_are_undelivered(any_url: str) -> None:
    """Each with the server's reason, and others of the same request are written."""
    table = f'kind = "search", url = "{any_url}", document = "visit"'
    await store_pages(table, [])
    with OpenSearch([any_url]) as client:
        longer = {"type": "keyword", "ignore_above": 100_000}
        client.indices.put_mapping(index="pages", body={"properties": {"ip": longer}})
    records = [record(1), record(2, ip="x" * 40_000), record(3)]
    refused = await store_pages(table, records)
    assert [each.id for each in refused] == [page_id(2)]
    (error,) = refused[0].errors if isinstance(refused[0], Undeliverable) else ()
    assert "immense term in field=" in error
    assert ids(any_url) == Counter([page_id(1), page_id(3)])
    assert standing(table).account.total.undelivered == {"sink_refused": 1}


def test_each_refused_row_has_its_own_reason(any_url: str) -> None:
    """Reports a reason for each refused row; an id that servers refuse spoils no request."""
    long = Row("x" * 513, 0, {"url": A})
    number, text = (
        Row(key, 1, {"url": A, **told})
        for key, told in (("n", {"run": "n"}), ("t", {"url": {"a": 1}}))
    )
    with closing(opened(any_url)) as store, pytest.raises(RowsRefused) as caught:
        store.put([long, number, text, Row("fine", 2, {"url": A})])
    reasons = caught.value.keys
    assert isinstance(reasons, Mapping)
    assert "512 bytes" in reasons[long.key]
    assert "[run]" in reasons["n"]
    assert "[url]" in reasons["t"]
    assert list(documents_of(any_url)) == ["fine"]
