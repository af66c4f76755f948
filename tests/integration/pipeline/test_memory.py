"""A memory of pages in real databases: what is learnt once, what is due, and whose turn it is."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.records import Batch, Record
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageFailed
from crawlstream.tasks import beside
from crawlstream.wire import events
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.__main__ import main
from pipeline_service.memory.known_page import KnownPage
from pipeline_service.memory.seen import key_of
from pipeline_service.memory.sql import lastmod_trust
from pipeline_service.memory.sql import visits as visits_module
from pipeline_service.memory.sql.visits import VisitStore
from pipeline_service.memory.visitor import Visitor
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_visits
from pipeline_service.sinks import store_calls
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.visit_requests import encode_visits
from pipeline_service.staging import opened
from support.pipelines import writer
from support.pipelines.results import page_id, record
from support.pipelines.targets import select
from support.waiting import WaitUntil

BEGAN = time.time() - 86_400
"""When the pages of these tests were seen first; only differences count."""
HOUR_S = 3_600.0


class Bench:
    """A memory in a database, written by sinks and read as the commands do."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.file = folder / "pipelines.toml"
        self._folder = folder
        self.delivered: dict[int, int] = {}
        """Records that told something new, by partition."""
        self._stores: list[VisitStore] = []
        self.describe()

    def describe(self, visits: str = 'base = "1h"', more: str = "") -> None:
        """Write the file of the pipelines."""
        self.file.write_text(
            f'[pipeline.news]\nwhere = {{appid = ["app"], status = ["200"]}}\n{more}\n'
            f'[pipeline.news.sink]\nkind = "pages"\nurl = "{self.url}"\nsignature = "body"\n'
            f"[pipeline.news.visits]\n{visits}\n"
        )

    @property
    def pipeline(self) -> Pipeline:
        """As the file says."""
        return read(self.file.read_text(), {})["news"]

    async def learn(self, *values: bytes, partition: int = 0, failures: bool = False) -> None:
        """Have the memory read records of a partition, after those before."""
        asked = self.pipeline.failures if failures else self.pipeline
        topic = writer.TOPIC[::-1] if failures else writer.TOPIC
        async with writer.sink_of(asked, self._folder / f"spool{partition}") as sink:
            start = await sink.position(topic, partition) or 0
            records = [
                Record("t", partition, start + n, int(time.time() * 1000), None, value)
                for n, value in enumerate(values)
            ]
            batch = Batch(topic, partition, start, start + len(records), records)
            judged = judge(asked, batch)
            async with opened([asked]) as stagings:
                staged = stagings[asked.name].run(judged, lambda _: None, lambda _: False)
                assert await sink.write(batch, await staged, Liveness("write")) is None
            account = sink.standings[partition].account.total
            assert account.is_closed
            self.delivered[partition] = account.delivered

    def store(self) -> VisitStore:
        """Environment of its own process."""
        sink = self.pipeline.sink
        assert isinstance(sink, PagesSink)
        self._stores.append(open_visits(self.pipeline, sink))
        return self._stores[-1]

    def page(self, url: str) -> KnownPage:
        """Known data of a page."""
        page = self.store().page(key_of("app", url))
        assert page is not None
        return page

    def row(self, column: str) -> list[Any]:
        """A column of all pages, by URL."""
        found = select(self.url, f"select {column} as it from memory order by url")  # noqa: S608
        return [row["it"] for row in found]

    def shift(self, seconds: float) -> None:
        """Have it be later: what was to come, and what was noted, is so much sooner."""
        is_file = self.url.startswith("sqlite")
        for column in ("next_visit", "claimed_until"):
            earlier = (
                f"strftime('%Y-%m-%dT%H:%M:%f000Z', {column}, '{-seconds:+} seconds')"
                if is_file
                else f"{column} - interval '{seconds} seconds'"
            )
            select(self.url, f"update memory set {column} = {earlier} returning null as it")  # noqa: S608

    def close(self) -> None:
        """Let go of the database."""
        for store in self._stores:
            store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str) -> Iterator[Bench]:
    """An empty memory of each kind."""
    url = f"sqlite:///{tmp_path}/news.db"
    if request.param == "postgresql":
        server: RunningPostgres = request.getfixturevalue("postgres_server")
        url = server.make_database(fresh_name)
    bench = Bench(url, tmp_path)
    yield bench
    bench.close()


def result(path: str, number: int, *, at: float, **more: Any) -> bytes:
    """A result of a page, seen that number of seconds after the beginning."""
    url = f"http://example.com/{path}"
    told = {"url": url, "response_url": url, "timestamp": BEGAN + at, **more}
    return record(number, **told)


async def test_what_is_read_twice_is_learnt_once(bench: Bench) -> None:
    """Learns a record once, though a frozen process or another partition reads it again."""
    asked = bench.pipeline
    first, second = result("a", 1, at=0), result("a", 2, at=HOUR_S, body=b"other")
    frozen = writer.sink_of(asked, bench.file.parent / "frozen")
    async with frozen as sink:
        await sink.position(writer.TOPIC, 0)
        await bench.learn(first, second)
        batch = writer.batch_of([first, second])
        assert await sink.write(batch, judge(asked, batch), Liveness("write")) == 2
    await bench.learn(second, first, partition=1)
    page = bench.page("http://example.com/a")
    assert (page.visits, page.changes, page.last_id) == (1, 1, page_id(2))
    assert page.last_changed == pytest.approx(BEGAN + HOUR_S, abs=1e-3)


async def test_partitions_learn_of_one_page_one_after_the_other(bench: Bench) -> None:
    """Overwrites nothing that another partition has learnt of a page, new pages included."""
    paths = [f"p{n}" for n in range(20)]

    async def read_all(partition: int) -> None:
        for turn in range(4):
            number = 1_000 * partition + 100 * turn
            at = 60.0 * (turn + 1) + partition
            values = [result(path, number + n, at=at) for n, path in enumerate(paths)]
            # Every other one turns them round.
            await bench.learn(*values[:: -1 if turn % 2 else 1], partition=partition)

    await asyncio.gather(read_all(0), read_all(1))
    last_seen = {round(bench.page(f"http://example.com/{p}").last_seen - BEGAN, 3) for p in paths}
    assert last_seen == {241.0}
    # Late results are older; each of the others counts, besides the first one of a page.
    assert sum(bench.row("visits")) + 20 == sum(bench.delivered.values()) >= 80


@pytest.mark.parametrize("bench", ["postgresql"], indirect=True)
async def test_what_others_are_learning_is_waited_for(bench: Bench, wait_until: WaitUntil) -> None:
    """A row is read when they have written it, and not before."""
    await bench.learn(result("a", 1, at=0))
    with psycopg.connect(bench.url) as other:
        other.execute("update memory set visits = 100")
        learning = asyncio.create_task(bench.learn(result("a", 2, at=60)))
        waiting = "select 1 as it from pg_stat_activity where wait_event_type = 'Lock'"
        await wait_until(lambda: select(bench.url, waiting), every_s=0.2)
        other.commit()
    await learning
    assert bench.row("visits") == [101]


async def test_a_page_that_says_noindex_is_gone_until_it_does_not(bench: Bench) -> None:
    """Counts such a page as gone with ``respect``; it does not enter, and visits become rare."""
    bench.describe(more='respect = ["noindex"]')
    said, over = ("noindex",), ("unavailable_after=5",)
    await bench.learn(result("a", 1, at=0), result("b", 2, at=0, directives=said))
    assert bench.row("url") == ["http://example.com/a"]
    await bench.learn(
        result("a", 3, at=HOUR_S, directives=said), result("a", 4, at=2 * HOUR_S, directives=over)
    )
    page = bench.page("http://example.com/a")
    assert (page.is_gone, page.status) == (True, 200)
    assert page.next_visit - page.last_heard > HOUR_S
    await bench.learn(result("a", 5, at=3 * HOUR_S))
    assert not bench.page("http://example.com/a").is_gone


async def test_a_page_that_fails_is_tried_later(bench: Bench) -> None:
    """Its event is read from another topic; unknown pages are left alone."""
    await bench.learn(result("a", 1, at=0))
    failed = [
        PageFailed(
            id=page_id(n),
            crawl=CrawlKey("link", appid, "job"),
            run=1,
            server_time=1,
            url=f"http://example.com/{path}",
            reason="timeout",
            attempts=3,
            depth=0,
        )
        for n, (appid, path) in enumerate([("app", "a"), ("app", "b"), ("other", "a")])
    ]
    await bench.learn(*map(events.encode, failed), b"not even JSON", failures=True)
    page = bench.page("http://example.com/a")
    assert (page.fails, page.status, page.visits) == (1, None, 0)
    assert page.next_visit - time.time() == pytest.approx(2 * HOUR_S, rel=0.1)
    assert len(bench.row("url")) == 1


async def test_what_is_due_is_fed_once_whoever_dies(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a process dies before it has noted its feeding, the next one feeds the same."""
    bench.describe('base = "1h"\ncrawl = {priority = 7}')
    headers = {"response_headers": {b"ETag": [b'"1"']}}
    await bench.learn(*(result(f"{n}", n, at=0, **headers) for n in range(3)))
    first, second = bench.store(), bench.store()
    claim = first.claim("one")
    assert claim is not None
    assert claim.is_last
    assert second.claim("two") is None
    monkeypatch.setattr(visits_module, "TURN_S", -1.0)
    assert first.claim("one") == claim
    again = second.claim("two")
    assert again == claim
    told = [orjson.loads(value) for value in encode_visits(claim.crawl, claim.visits)]
    assert sorted(seed["url"][-1] for seed in told) == ["0", "1", "2"]
    assert {seed["occasion"]["n"] for seed in told} == {0, 1, 2}
    assert {(s["etag"], s["maxdepth"], s["priority"], s["appid"]) for s in told} == {
        ('"1"', 0, 7, "app")
    }
    assert told[0]["expires"] > time.time()
    second.fed(again)
    first.fed(claim)
    assert first.claim("one") is None
    course = first.course()
    assert (course.due, course.in_flight) == (0, 3)
    await bench.learn(result("1", 11, at=86_000))
    assert first.course().in_flight == 2


async def test_what_nothing_is_heard_of_is_due_again(bench: Bench) -> None:
    """Visits a page without an answer again when its claim ends, each time twice as late."""
    bench.describe('base = "1h"\nanswer_within = "100s"')
    await bench.learn(result("a", 1, at=0))
    store = bench.store()
    waits = []
    for _ in range(4):
        claim = store.claim("one")
        assert claim is not None
        store.fed(claim)
        assert store.claim("one") is None
        waits.append(bench.page("http://example.com/a").next_visit - time.time())
        bench.shift(waits[-1] + 1)
    for wait, asked in zip(waits, range(4), strict=True):
        assert 95 <= wait - 100 * (2**asked - 1) <= 201
    assert bench.row("asked") == [4]
    await bench.learn(result("a", 2, at=86_000))
    assert bench.row("asked") == [0]
    assert bench.row("claimed_until") == [None]


async def test_visits_cost_what_is_allowed(bench: Bench) -> None:
    """Exceeds neither the visits per day nor those in flight, with any number of processes."""
    bench.describe("per_day = 864_000\nin_flight = 30")
    await bench.learn(*(result(f"{n}", n, at=0) for n in range(60)))
    bench.shift(30 * 86_400)
    stores, fed, began = [bench.store(), bench.store()], 0, time.monotonic()
    while (took_s := time.monotonic() - began) < 2 or fed == 0:
        for number, store in enumerate(stores):
            if (claim := store.claim(str(number))) is not None:
                fed += len(claim.visits)
                store.fed(claim)
        assert fed <= 10 * (time.monotonic() - began) + 1, took_s
        assert fed <= 30
    assert stores[0].course().due == 60 - fed
    status = stores[0].status()
    assert status["visits_a_day"] == pytest.approx(60 * 24, rel=0.01), "bounds allow no more"


async def test_a_page_is_visited_with_what_is_known_of_it(bench: Bench) -> None:
    """Answers to visits are let through whatever `where` says; a 404 on its own is none."""
    await bench.learn(result("a", 1, at=0), result("b", 2, at=0, status_code=404))
    occasion = {"schedule": "visits-news", "at": 1}
    gone = [
        orjson.dumps(orjson.loads(result("a", n, at=n, status_code=404)) | {"occasion": occasion})
        for n in (3, 4)
    ]
    await bench.learn(*gone, result("a", 5, at=5, status_code=404))
    page = bench.page("http://example.com/a")
    assert page.is_gone
    assert page.gone == 2


async def test_what_a_sitemap_calls_changed_is_due(bench: Bench) -> None:
    """If it was seen before that, is not waited for already, and is known."""
    await bench.learn(*(result(f"{n}", n, at=0) for n in range(4)))
    store = bench.store()
    claim = store.claim("one")
    assert claim is not None
    store.fed(claim)
    await bench.learn(*(result(f"{n}", 10 + n, at=60) for n in range(3)))
    changed = [86_000.0, -86_000.0, 2e9, 86_000.0, 86_000.0]
    at = [datetime.fromtimestamp(BEGAN + each, UTC).isoformat() for each in changed]
    links = [(f"http://example.com/{n}", "") for n in range(5)]
    assert store.course().due == 3, "an hour has passed since then"
    bench.shift(-7 * 86_400)
    assert store.course().due == 0
    await bench.learn(result("sitemap.xml", 20, at=86_000, links=links, lastmods=at))
    assert [page.url for page in store.due(1)] == ["http://example.com/0"]
    assert store.course().due == 1
    assert len(bench.row("url")) == 5


async def test_what_a_site_announces_is_due(bench: Bench) -> None:
    """Pages that are known, to the application of the event, and not seen since."""
    await bench.learn(*(result(f"{n}", n, at=0) for n in range(3)))
    bench.shift(-7 * 86_400)
    urls = [f"http://example.com/{n}" for n in (0, 1, 9)]
    now = int(time.time())
    told = [
        events.encode_announced("other", "example.com", [urls[0]], now),
        events.encode_announced("app", "example.com", [urls[0]], int(BEGAN) - 9),
        events.encode_announced("app", "example.com", [*urls[1:], "no URL"], now),
        b'{"event": "pages_announced", "appid": "app", "urls": [1]}',
    ]
    await bench.learn(*told, failures=True)
    store = bench.store()
    assert store.course().due == 1
    assert [page.url for page in store.due(1)] == ["http://example.com/1"]
    assert len(bench.row("url")) == 3


async def test_lastmods_that_bring_no_change_are_ignored(bench: Bench) -> None:
    """Except for a few pages of a file, by which their domain is believed again."""
    paths = [f"{n}" for n in range(20)]
    links = [(f"http://example.com/{path}", "") for path in paths]
    await bench.learn(*(result(path, n, at=0) for n, path in enumerate(paths)))
    store = bench.store()

    async def hastened(turn: int) -> list[str]:
        """Read a sitemap whose pages have all changed; return those that are due now."""
        bench.shift(-7 * 86_400)
        assert store.course().due == 0
        at = datetime.fromtimestamp(BEGAN + 100.0 * turn - 50, UTC).isoformat()
        file = {"links": links, "lastmods": [at] * len(links)}
        await bench.learn(result("sitemap.xml", 100 * turn, at=100.0 * turn, **file))
        due = [page for page in store.due(50) if page.next_visit <= time.time()]
        return [path for page in due if (path := page.url.rpartition("/")[2]) in paths]

    async def visit(paths: list[str], turn: int, body: bytes) -> None:
        """Learn that pages have a body."""
        at, first = 100.0 * turn + 20, 100 * turn + 1
        values = (result(path, first + n, at=at, body=body) for n, path in enumerate(paths))
        await bench.learn(*values)

    found = await hastened(1)
    assert len(found) == 20
    assert store.status()["lastmods_ignored"] == 0
    await bench.learn(*(result(path, 150 + n, at=120.0) for n, path in enumerate(found)))
    for turn in (2, 3):
        found = await hastened(turn)
        assert len(found) == 5
        assert store.status()["lastmods_ignored"] == 1
        await visit(found, turn, b"changed %d" % turn)
    assert len(await hastened(4)) == 20
    assert store.status()["lastmods_ignored"] == 0


async def test_domains_without_a_lastmod_for_long_are_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few are looked at when others are noted, those after them, and from the first one on."""
    numbers = itertools.count()

    async def list_page(domain: str) -> list[str]:
        """Learn a page, and that it has changed since; return the domains that have notes."""
        url, turn = f"http://{domain}/a", next(numbers)
        await bench.learn(result("a", 10 * turn, at=0, url=url, response_url=url))
        bench.shift(-7 * 86_400)
        at = [datetime.fromtimestamp(BEGAN + 50, UTC).isoformat()]
        await bench.learn(result("s", 10 * turn + 1, at=86_000, links=[(url, "")], lastmods=at))
        names = "select name as it from crawlstream_notes where name like 'lastmod %' order by name"
        return [row["it"].removeprefix("lastmod ") for row in select(bench.url, names)]

    assert await list_page("b.example") == ["b.example"]
    assert await list_page("c.example") == ["b.example", "c.example"]
    assert await list_page("a.example") == ["a.example", "b.example", "c.example"]
    monkeypatch.setattr(lastmod_trust, "_KEPT_S", -10)
    assert await list_page("b1.example") == ["a.example", "b.example", "b1.example"]
    assert await list_page("d.example") == []


@pytest.mark.parametrize("bench", ["postgresql"], indirect=True)
async def test_who_leaves_does_not_wait_for_a_frozen_database(
    bench: Bench, postgres_server: RunningPostgres, wait_until: WaitUntil
) -> None:
    """Ends a process though its database is frozen during visits."""
    bench.describe('min = "1s"')
    looks = "select 1 as it from pg_stat_activity where application_name like '%visits'"

    async def look_and_leave() -> None:
        sink = make_sink(Kafka(["127.0.0.1:1"]))  # Nothing is known, so nothing is fed.
        visitor = Visitor(bench.pipeline, bench.store(), sink, topics=Topics("t"))
        async with beside(visitor.run()):
            await wait_until(lambda: select(bench.url, looks))
            postgres_server.signal(signal.SIGSTOP)
            await asyncio.sleep(1.5)  # It looks each second, and waits for an answer.

    leaving = asyncio.create_task(asyncio.to_thread(asyncio.run, look_and_leave()))
    try:
        await asyncio.wait([leaving], timeout=store_calls.CALL_S)
        assert leaving.done(), "it waits for its thread"
    finally:
        postgres_server.signal(signal.SIGCONT)
        await leaving


async def test_people_see_what_is_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shows a page of the memory, and visits it out of turn on request."""
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(bench.file))
    await bench.learn(result("a", 1, at=86_000), result("b", 2, at=86_000))
    capsys.readouterr()

    def told(*arguments: str, code: int = 0) -> str:
        assert main(["pages", *arguments]) == code
        return capsys.readouterr().out

    def run() -> None:
        assert orjson.loads(told("status", "news", "--json"))["pages"] == 2
        assert "fresh, by estimate" in told("status", "news")
        assert told("due", "news", "-n", "1").count("http://") == 1
        assert "changes_a_day" in told("show", "news", "example.com/a")
        missing = told("now", "news", "http://example.com/b", "http://example.com/c", code=1)
        assert "http://example.com/c is not in the memory news" in missing
        assert orjson.loads(told("due", "news", "-n", "1", "--json"))["url"].endswith("/b")
        assert main(["pages", "show", "news"]) == 2

    await asyncio.to_thread(run)
    claim = bench.store().claim("one")
    assert claim is not None
    assert [visit.url for visit in claim.visits] == ["http://example.com/b"]


@pytest.mark.parametrize(
    ("visits", "said"),
    [
        ('base = "1h"', "interval of a page that changes once a day"),
        ('cron = "30 2 * * *"\nzone = "Europe/Berlin"', "30 2 * * * (Europe/Berlin)"),
    ],
)
async def test_what_has_changed_is_told_with_its_items(
    bench: Bench,
    visits: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New, changed and gone pages since a time, before and after; nothing else."""
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(bench.file))
    bench.describe(visits, 'workers = 0\n[[pipeline.news.stage]]\nuse = "page"')
    text = bench.file.read_text()
    bench.file.write_text(text.replace('signature = "body"', 'signature = "items"\nkeep = true'))
    before, later = HOUR_S, 2 * HOUR_S
    pages = {name: _titled(name, n, at=0) for n, name in enumerate(["a", "b", "c"])}
    await bench.learn(*pages.values())
    occasion = {"schedule": "visits-news", "at": 1}
    gone = [result("c", n, at=later + n, status_code=404) for n in (10, 11)]
    asked = [orjson.dumps(orjson.loads(each) | {"occasion": occasion}) for each in gone]
    await bench.learn(
        _titled("a", 4, at=later, title="other"),
        _titled("b", 5, at=later),
        *asked,
        _titled("d", 6, at=later),
    )
    since = datetime.fromtimestamp(BEGAN + before, UTC).isoformat()
    words = ["pages", "changed", "news", "--since", since]
    capsys.readouterr()
    assert await asyncio.to_thread(main, [*words, "--json"]) == 0
    told = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {each["url"][-1]: each for each in told}
    assert {name: each["change"] for name, each in found.items()} == {
        "a": "changed",
        "c": "gone",
        "d": "new",
    }
    assert [found["a"][name][0]["title"] for name in ("items_before", "items")] == ["a", "other"]
    assert found["c"]["items"][0]["title"] == "c"
    assert found["d"]["items_before"] is None
    assert await asyncio.to_thread(main, [*words, "-n", "1"]) == 0
    listed = capsys.readouterr().out
    assert "1 new, 1 changed, 1 gone, since" in listed
    assert listed.count("http://") == 1
    assert await asyncio.to_thread(main, ["pages", "status", "news"]) == 0
    assert said in capsys.readouterr().out


def _titled(path: str, number: int, *, at: float, title: str | None = None) -> bytes:
    """A result of a page with a title."""
    body = f"<html><head><title>{title or path}</title></head></html>".encode()
    return result(path, number, at=at, body=body)


@pytest.mark.parametrize("since", ["soon", "1w", "2026-13-01"])
async def test_a_time_that_is_none_is_refused(
    since: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuses other texts as a time, with examples."""
    bench = Bench(f"sqlite:///{tmp_path}/news.db", tmp_path)
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(bench.file))
    words = ["pages", "changed", "news", "--since", since]
    assert await asyncio.to_thread(main, words) == 2
    assert 'such as "24h" or "7d"' in capsys.readouterr().err
