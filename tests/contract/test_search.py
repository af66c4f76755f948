"""Promises of a search index as a sink, tried on a server of the tests with faults.

No OpenSearch runs here: ``support.pipelines.search_server`` answers as its documentation says. Its
own client library, opensearch-py, reads what was written.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import Row, RowsRefused, SinkSpec, SinkUnavailable
from crawlstream.retry import Backoff
from pipeline_service.contract import IdempotentContract, row, rows_of
from pipeline_service.records.judging import Judged, Undeliverable, judge
from pipeline_service.sink_factory import open_kept, prove
from pipeline_service.sinks.row_maker import columns_of
from pipeline_service.sinks.search.connection import SearchClient
from pipeline_service.sinks.search.search_store import DOCUMENT, DocumentPlace, SearchStore
from pipeline_service.sinks.sink import SinkPosition, SinkRefused
from support.crawler.tls import make_certificate
from support.pipelines import writer
from support.pipelines.results import page_id, record
from support.pipelines.search_server import SearchServer, search_server
from support.pipelines.targets import documents_of

COLUMNS = columns_of(None, with_body=False)
T0 = 1795251154.0
A, B, C = (f"http://127.0.0.7:8080/{name}" for name in "abc")


@pytest.fixture
def served() -> Iterator[tuple[SearchServer, str]]:
    """A server, and its URL."""
    with search_server() as made:
        yield made


@pytest.fixture
def server(served: tuple[SearchServer, str]) -> SearchServer:
    """A server."""
    return served[0]


@pytest.fixture
def url(served: tuple[SearchServer, str]) -> str:
    """Its URL."""
    return served[1]


class TestSearch(IdempotentContract):
    """An index with a document for each result."""

    @pytest.fixture(autouse=True)
    def _place(self, url: str) -> None:
        self.options = {"url": url}

    def make(self, spec: SinkSpec) -> SearchStore:
        """As a pipeline makes it."""
        return opened(spec.options["url"], owner=f"{spec.pipeline}:{spec.edition}", is_open=False)

    def keys(self, spec: SinkSpec) -> Sequence[str]:
        """By a client library of others."""
        found = documents_of(spec.options["url"])
        return [key for key in found if key.startswith(spec.pipeline)]


def opened(url: str, *, owner: str = "p:1", is_open: bool = True) -> SearchStore:
    """A store of the index ``pages``."""
    store = SearchStore(SearchClient(url), "pages", owner=owner, columns=COLUMNS)
    if is_open:
        store.open()
    return store


def placed(number: int, version: int, *, is_gone: bool = False) -> Row:
    """A row of the one document ``x``."""
    place = DocumentPlace("x", version, is_gone=is_gone)
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


def test_the_newest_version_of_a_document_wins_in_any_order(server: SearchServer, url: str) -> None:
    """Writes and deletes, by several processes, some of them twice, in one request or in several.

    A late one comes a day after the document was deleted, too.
    """
    chance = random.Random(7)
    with closing(opened(url)) as one, closing(opened(url, owner="q:1")) as other:
        for turn in range(30):
            server.indexes["pages"].documents.clear()
            rows = [placed(n, 10 + n, is_gone=chance.random() < 0.4) for n in range(6)]
            written = [*rows, *chance.sample(rows, 3)]
            chance.shuffle(written)
            for some in (written[:4], written[4:5], written[5:]):
                chance.choice([one, other]).put(some)
                server.indexes["pages"].now += 3600
            server.indexes["pages"].now += 20 * 3600
            one.put([rows[0]])
            last = rows[-1].fields[DOCUMENT]
            assert isinstance(last, DocumentPlace)
            expected = {} if last.is_gone else {"x": {"url": "15"}}
            assert documents_of(url) == expected, (turn, written)


async def test_a_document_is_its_page_as_it_was_last_seen(url: str) -> None:
    """Later results replace it; 404, 410 and redirects delete it; errors and 304 are left out."""
    table = f'kind = "search", url = "{url}"'
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
    assert ids(url) == Counter([page_id(n) for n in (2, 3, 4)])
    account = standing(table).account.total
    assert (account.read, account.delivered, account.filtered) == (8, 5, {"document": 3})
    later = [
        record(9, url=B, timestamp=T0 + 20, status_code=410),
        record(10, url="http://127.0.0.7:8080/new", timestamp=T0 + 20, redirect_urls=[C]),
        record(11, url=A, timestamp=T0 + 1, status_code=404),
    ]
    await store_pages(table, later, at=8)
    assert ids(url) == Counter([page_id(n) for n in (4, 10)])
    banned = record(12, url=A, timestamp=T0 + 30, directives=["noindex"])
    await store_pages(table, [banned], 'respect = ["noindex"]\nwhere = {}', at=11)
    assert ids(url) == Counter([page_id(10)])
    (found,) = documents_of(url).values()
    assert found["attrs"] == {"k": [1, None]}
    assert found["timestamp"].startswith("2026-11-21T")
    assert "body" not in found


def ids(url: str) -> Counter[str]:
    """The result that each document is of."""
    return Counter(found["id"] for found in documents_of(url).values())


async def test_documents_that_the_server_refuses_are_undelivered(
    server: SearchServer, url: str
) -> None:
    """Each with the server's reason, and others of the same request are written."""
    table = f'kind = "search", url = "{url}", document = "visit"'
    await store_pages(table, [])
    for name in ("ip", "spiderid"):
        server.indexes["pages"].mappings["properties"][name]["ignore_above"] = 100_000
    records = [record(1), record(2, ip="x" * 40_000), record(3)]
    refused = await store_pages(table, records)
    assert [each.id for each in refused] == [page_id(2)]
    (error,) = refused[0].errors if isinstance(refused[0], Undeliverable) else ()
    assert "failed to parse field [ip]" in error
    assert ids(url) == Counter([page_id(1), page_id(3)])
    assert standing(table).account.total.undelivered == {"sink_refused": 1}


def test_each_refused_row_has_its_own_reason(url: str) -> None:
    """And an id that servers do not accept spoils no request."""
    long = Row("x" * 513, 0, {"url": A})
    number, text = (
        Row(key, 1, {"url": A, **told}) for key, told in (("n", {"run": "n"}), ("t", {"url": 7}))
    )
    with closing(opened(url)) as store, pytest.raises(RowsRefused) as caught:
        store.put([long, number, text, Row("fine", 2, {"url": A})])
    reasons = caught.value.keys
    assert isinstance(reasons, Mapping)
    assert "512 bytes" in reasons[long.key]
    assert "[run]" in reasons["n"]
    assert "[url]" in reasons["t"]
    assert list(documents_of(url)) == ["fine"]


@pytest.mark.parametrize("status", [429, 503, 500, 409])
def test_items_that_are_not_taken_now_are_written_again(
    status: int, server: SearchServer, url: str
) -> None:
    """The rest of their request is written; so for a conflict that is not about versions."""
    spec = TestSearch().spec()
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


def test_requests_stay_within_the_limits(server: SearchServer, url: str) -> None:
    """10 MiB and 1000 documents; where a server takes less, halves are sent."""
    spec = TestSearch().spec()
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
        store.put(rows_of(TestSearch().spec(), 1))
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


Break = Callable[[SearchServer], object]


def _remapped(server: SearchServer) -> None:
    server.indexes["pages"].mappings["properties"]["url"] = {"type": "long"}


def _narrowed(server: SearchServer) -> None:
    del server.indexes["pages"].mappings["properties"]["depth"]


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda server: setattr(server, "authorization", "Basic x"), "refuses the credentials"),
        (lambda server: setattr(server, "fault", lambda *_: 403), "does not permit GET /"),
        (_remapped, "the field url of the index pages is of type long"),
        (_narrowed, "has no field depth: set migrate = true"),
        (lambda server: server.indexes.pop("pages"), "the index pages is gone"),
        (
            lambda server: server.indexes["pages"].settings.pop("gc_deletes"),
            "set its index.gc_deletes to 25h",
        ),
        (
            lambda server: server.indexes["pages"].settings.update(
                translog={"durability": "async"}
            ),
            "index.translog.durability",
        ),
    ],
)
async def test_a_check_says_what_an_operator_has_to_change(
    breaks: Break, message: str, server: SearchServer, url: str
) -> None:
    """In a sentence, and it changes nothing."""
    table = f'kind = "search", url = "{url}"'
    asked = writer.pipeline(table)
    prove(load_settings(), asked)
    assert not server.indexes
    await store_pages(table, [record(1)])
    prove(load_settings(), asked)
    breaks(server)
    before = len(server.requests)
    with pytest.raises(ConfigError, match=message):
        prove(load_settings(), asked)
    writing = {"PUT", "DELETE"}
    assert not [each for each in server.requests[before:] if each[0] in writing]


async def test_fields_that_an_index_lacks_are_added_on_demand(
    server: SearchServer, url: str
) -> None:
    """And its memory of deletes is prolonged; nothing else is changed."""
    table = f'kind = "search", url = "{url}", migrate = true'
    await store_pages(table, [record(1, url=A)])
    _narrowed(server)
    server.indexes["pages"].settings.pop("gc_deletes")
    server.indexes["pages"].mappings["properties"]["mine"] = {"type": "text"}
    await store_pages(table, [record(2, url=B)], at=1)
    properties = server.indexes["pages"].mappings["properties"]
    assert properties["depth"] == {"type": "long"}
    assert properties["mine"] == {"type": "text"}
    assert server.indexes["pages"].settings["gc_deletes"] == "25h"
    assert len(documents_of(url)) == 2


def test_an_index_that_two_processes_create_is_there_once(server: SearchServer, url: str) -> None:
    """The second one finds that of the first."""
    with closing(opened(url)) as first, closing(opened(url, is_open=False)) as second:
        first.put(rows_of(TestSearch().spec(), 1))
        missing = ["/pages", "/pages-crawlstream"]

        def not_yet(method: str, path: str) -> int | None:
            if method != "GET" or path not in missing:
                return None
            missing.remove(path)
            return 404

        server.fault = not_yet
        second.open()
    assert not missing
    assert len(documents_of(url)) == 1


@pytest.mark.parametrize(
    ("secret", "more", "header"),
    [("user:p%40ss@", "", "Basic dXNlcjpwQHNz"), ("", ', api_key = "k"', "ApiKey k")],
)
async def test_credentials_are_sent_and_not_shown(
    secret: str, more: str, header: str, server: SearchServer, url: str
) -> None:
    """User and password of the URL, with its escapes, or a key."""
    server.authorization = header
    table = f'kind = "search", url = "{url.replace("//", f"//{secret}")}"{more}'
    await store_pages(table, [record(1)])
    server.authorization = "other"
    with pytest.raises(ConfigError) as caught:
        prove(load_settings(), writer.pipeline(table))
    assert "p%40ss" not in str(caught.value)


def test_a_server_of_another_kind_is_recognized(server: SearchServer, url: str) -> None:
    """By its answer, and one that is away by none."""
    server.distribution = None
    server.fault = lambda _method, path: 404 if path == "/" else None
    for at, message in ((url, "answers GET / with 404"), ("http://127.0.0.1:1", "does not answer")):
        with (
            closing(opened(at, is_open=False)) as store,
            pytest.raises(SinkUnavailable, match=message),
        ):
            store.open()


def test_a_certificate_has_to_be_trusted(tmp_path: Path) -> None:
    """By the file that ``ca`` names, and the host has to be the one that it is for."""
    certificate = make_certificate(tmp_path)
    with search_server(certificate) as (_, url):
        table = f'kind = "search", url = "{url}"'
        with pytest.raises(ConfigError, match=r"is not trusted.*set ca"):
            prove(load_settings(), writer.pipeline(table))
        prove(load_settings(), writer.pipeline(f'{table}, ca = "{certificate}"'))
        other = table.replace("127.0.0.1", "localhost")
        with pytest.raises(ConfigError, match="is not trusted"):
            prove(load_settings(), writer.pipeline(f'{other}, ca = "{certificate}"'))
    with pytest.raises(ConfigError, match="ca: the file /none cannot be read"):
        prove(load_settings(), writer.pipeline(f'{table}, ca = "/none"'))
