"""The runs of a crawl on a real Kafka: which there were, and what changed between two."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent, PageFailed
from crawlstream.model.run_history import CHANGES, CrawlRun, RunHistory
from crawlstream.wire import events
from crawlstream_cli.app import run
from rest_service.runs.compare import compare
from rest_service.runs.history import read_history

pytest_plugins = ["support.bus.fixtures"]

KEY = CrawlKey("link", "shop", 'spring "1"')
OTHER = CrawlKey("link", "shop", "summer")
NOW = int(time.time())
ENDED = {"admitted": 3, "done": 2, "failed": 1}


def ending(number: int, event: str, crawl: CrawlKey = KEY) -> bytes:
    """The event of a run's ending."""
    return events.encode(
        CrawlEvent(
            event=event,
            crawl=crawl,
            run=number,
            server_time=NOW + 5,
            started_at=NOW,
            counters=ENDED,
            reasons={"done": {"200": 1, "404": 1}},
        )
    )


def beginning(number: int, crawl: CrawlKey = KEY) -> bytes:
    """The event of its beginning."""
    return events.encode(
        CrawlEvent(event="crawl_started", crawl=crawl, run=number, server_time=NOW)
    )


def page(number: int, url: str, *, crawl: CrawlKey = KEY, **more: object) -> bytes:
    """A result."""
    ids = {"spiderid": crawl.spiderid, "appid": crawl.appid, "crawlid": crawl.crawlid}
    fields = {"run": number, "url": url, "status_code": 200, "body": "as it was", **more}
    return json.dumps(ids | fields).encode()


FAILED = events.encode(
    PageFailed(
        id="x",
        crawl=KEY,
        run=2,
        server_time=NOW,
        url='http://x/"crawl_started"',
        reason="dns",
        attempts=4,
        depth=0,
    )
)


def failed(run: int, number: int, reason: str, *, crawl: CrawlKey = KEY) -> bytes:
    """The event of a page that failed."""
    return events.encode(
        PageFailed(
            id=f"page{number}",
            crawl=crawl,
            run=run,
            server_time=NOW,
            url=f"http://x/{number}",
            reason=reason,
            attempts=4,
            depth=1,
            parent_url="http://x/",
            detail="[red]as it is",
        )
    )


EVENTS = [
    *(b"no JSON: spring crawl_", b'{"event": "crawl_started", "crawlid": "spring \\"1\\""}'),
    *(beginning(1), FAILED, ending(1, "crawl_finished"), ending(9, "crawl_finished", OTHER)),
    *(ending(2, "crawl_stopped"), beginning(3)),
    *(failed(3, n, "timeout") for n in (1, 2, 3, 3)),
    *(failed(3, 4, "dns"), failed(1, 5, "robots"), failed(9, 6, "tls", crawl=OTHER)),
]
RESULTS = [
    page(1, "http://x/same"),
    page(3, "http://x/same"),
    page(1, "http://x/gone", status_code=404),
    page(3, "http://x/new"),
    page(1, "http://x/broken"),
    page(3, "http://x/broken", status_code=503),
    page(1, "http://x/edited"),
    page(3, "http://x/edited", body="new"),
    page(2, "http://x/of-another-run"),
    page(3, "http://x/of-another-crawl", crawl=OTHER),
    page(9, "http://x/same", crawl=OTHER),
    b"no JSON",
    b'{"crawlid": "spring \\"1\\""}',
]


@pytest.fixture
async def topics(hosts: list[str], fresh_name: str) -> Topics:
    """Two crawls on topics of this test's own."""
    topics = Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=2)), topics)
    await fill(hosts, topics.events, EVENTS)
    await fill(hosts, topics.crawled, RESULTS)
    return topics


async def fill(hosts: list[str], topic: str, values: Iterable[bytes]) -> None:
    """Write records to both partitions."""
    async with KafkaSink(Kafka(hosts)) as sink:
        outs = [Out(topic, value, str(n).encode()) for n, value in enumerate(values)]
        await sink.send(outs)


async def test_every_run_is_found(hosts: list[str], topics: Topics) -> None:
    """Beginnings and endings make runs; what is of others, or nothing at all, makes none."""
    found = await read_history(Kafka(hosts), topics.events, KEY)
    assert found.is_complete
    running, stopped, finished = found.runs
    assert (finished.run, finished.state, finished.started_at) == (1, "finished", NOW)
    assert finished.ended_at == NOW + 5
    assert (finished.counters["failed"], finished.reasons["done"]) == (1, {"200": 1, "404": 1})
    assert (stopped.run, stopped.state, stopped.started_at) == (2, "stopped", NOW)
    assert running == CrawlRun(crawl=KEY, run=3, started_at=NOW)
    assert (found.find(2), found.find(None), found.before(3)) == (stopped, running, stopped)
    assert (found.find(9), found.before(1)) == (None, None)


async def test_only_the_latest_events_are_read(hosts: list[str], topics: Topics) -> None:
    """A bounded answer says that there may be more."""
    found = await read_history(Kafka(hosts), topics.events, KEY, most_events=2)
    assert not found.is_complete
    assert len(found.runs) < 3


async def test_changes_are_told_apart(hosts: list[str], topics: Topics) -> None:
    """Each page is new, gone, of another status, of another body, or the same; never of others."""
    found = await read_history(Kafka(hosts), topics.events, KEY)
    told = await compare(Kafka(hosts), topics.crawled, *runs_of(found, 1, 3))
    assert told.counts == dict.fromkeys((*CHANGES, "same"), 1)
    assert (told.share, told.is_complete) == (1, True)
    changed = {name: [tuple_of(one) for one in pages] for name, pages in told.changes.items()}
    assert changed == {
        "new": [("http://x/new", None, 200)],
        "gone": [("http://x/gone", 404, None)],
        "status": [("http://x/broken", 200, 503)],
        "content": [("http://x/edited", 200, 200)],
    }


async def test_two_crawls_can_be_compared(hosts: list[str], topics: Topics) -> None:
    """The runs need not be of one crawl; few are listed, all are counted."""
    (other,) = (await read_history(Kafka(hosts), topics.events, OTHER)).runs
    (_, _, first) = (await read_history(Kafka(hosts), topics.events, KEY)).runs
    told = await compare(Kafka(hosts), topics.crawled, other, first, listed=1)
    assert (told.counts["same"], told.counts["new"], len(told.changes["new"])) == (1, 3, 1)


async def test_a_large_run_is_sampled(hosts: list[str], fresh_name: str) -> None:
    """No more pages are kept than allowed; of those that are, every figure is true."""
    topics = Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=2)), topics)
    urls = [f"http://x/{number}" for number in range(4000)]
    await fill(hosts, topics.crawled, [page(1, url) for url in urls])
    await fill(hosts, topics.crawled, [page(2, url, body=url) for url in urls])
    before, after = (CrawlRun(crawl=KEY, run=n, started_at=NOW) for n in (1, 2))
    told = await compare(Kafka(hosts), topics.crawled, before, after, most_pages=1000)
    assert told.share <= 0.25
    assert {name: count for name, count in told.counts.items() if count} == {
        "content": told.counts["content"]
    }
    assert told.counts["content"] == pytest.approx(4000 * told.share, rel=0.2)
    hurried = await compare(Kafka(hosts), topics.crawled, before, after, most_s=0.001)
    assert not hurried.is_complete


def tuple_of(change: Any) -> tuple[str, int | None, int | None]:
    """A change as its values."""
    return (change.url, change.before, change.after)


def runs_of(found: RunHistory, *numbers: int) -> tuple[CrawlRun, CrawlRun]:
    """Two runs by their numbers."""
    first, second = (found.find(number) for number in numbers)
    assert first is not None
    assert second is not None
    return first, second


@pytest.fixture
def command(
    hosts: list[str],
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs one command line: status, output, errors."""
    monkeypatch.setenv("KAFKA_HOSTS", hosts[0])
    monkeypatch.setenv("KAFKA_TOPIC_PREFIX", topics.incoming.partition(".")[0])

    def run_it(*arguments: str) -> tuple[int, str, str]:
        status = run([*arguments, "--appid", "shop", "--spider", KEY.spiderid])
        return (status, *capsys.readouterr())

    return run_it


def test_a_person_lists_and_compares(command: Callable[..., tuple[int, str, str]]) -> None:
    """Lists and compares runs in lines, JSON, and one sentence for errors."""
    status, out, _ = command("runs", KEY.crawlid)
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        *(["3", "running"], ["2", "stopped"], ["1", "finished"])
    ]
    status, out, _ = command("compare", KEY.crawlid, "--before", "1")
    assert status == 0
    before, after, counts, *lines = out.splitlines()
    assert before.startswith(f"Before: run 1 of {KEY.crawlid}, started ")
    assert after.startswith(f"After:  run 3 of {KEY.crawlid}, started ")
    assert counts == "1 new, 1 gone, 1 other status, 1 other content, 1 unchanged."
    assert ["other", "status", "200", "->", "503", "http://x/broken"] in [
        line.split() for line in lines
    ]
    status, out, _ = command("compare", KEY.crawlid, "--before", "1", "--json", "-n", "0")
    told = json.loads(out)
    assert (told["before"]["run"], told["counts"]["same"], told["changes"]["new"]) == (1, 1, [])
    status, out, _ = command("compare", KEY.crawlid, "--before-crawl", "summer", "--after", "1")
    assert out.startswith("Before: run 9 of summer, started ")
    assert out.splitlines()[2].startswith("3 new, ")
    status, _, told = command("runs", "nothing")
    assert status == 1
    assert told.startswith("crawlstream: no run of crawl nothing of application shop found: ")
    assert "has no run 7" in command("compare", KEY.crawlid, "--after", "7")[2]
    assert "has no run before run 1" in command("compare", KEY.crawlid, "--after", "1")[2]


def test_a_person_sees_what_failed_and_why(command: Callable[..., tuple[int, str, str]]) -> None:
    """Shows each page of one run once, the most frequent reason first, with where its link was."""
    status, out, _ = command("failures", KEY.crawlid, "-n", "2")
    assert status == 0
    first, *lines = out.splitlines()
    assert first == f"Crawl {KEY.crawlid}, run 3 (running): 4 pages failed."
    assert [line for line in lines if not line.startswith("  ")] == [
        "timeout 3  no complete answer came within DOWNLOAD_TIMEOUT: is the site up?",
        "dns 1  the crawler's machine knows no address of this host: check its spelling",
    ]
    assert re.fullmatch(
        r"  http://x/[123]  4 attempts; linked from http://x/; \[red\]as it is", lines[1]
    )
    assert lines[3] == "  … 1 more"
    status, out, _ = command("failures", KEY.crawlid, "--run", "1", "--json")
    told = json.loads(out)
    assert (told["state"], told["failed"], told["is_complete"]) == ("finished", {"robots": 1}, True)
    assert told["pages"][0]["url"] == "http://x/5"
    assert told["error_statuses"] == {"404": 1}
    status, out, _ = command("failures", KEY.crawlid, "--run", "1")
    assert out.splitlines()[-1] == "Results with an error status: 404 1."
    status, _, said = command("failures", "nothing")
    assert status == 1
    assert said.startswith("crawlstream: no run of crawl nothing of application shop found: ")
    assert "no run 7 of crawl" in command("failures", KEY.crawlid, "--run", "7")[2]
