"""Runs of a crawl over REST and on the screens: listed and compared, for whom they are open."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from html import unescape

import pytest
from kafka import KafkaProducer

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent
from crawlstream.wire import events
from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest

KEY = "bound-secret-0123456789"
ASKED = "appid=shop&crawlid=spring"
NOW = int(time.time())


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service whose key is bound to one application, which had a crawl of two runs."""
    folder = tmp_path_factory.mktemp("rest")
    keys = {"CRAWLSTREAM_API_KEYS": f"read@shop:{KEY}"}
    with running_rest(cluster, folder, **keys) as service:
        producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
        for topic, value in (*_events(cluster), *_results(cluster)):
            producer.send(topic, value)
        producer.flush(60)
        producer.close()
        yield service


def _events(cluster: MonitorCluster) -> Iterator[tuple[str, bytes]]:
    crawl = CrawlKey("link", "shop", "spring")
    for number in (1, 2):
        for event in ("crawl_started", "crawl_finished"):
            told = CrawlEvent(
                event=event, crawl=crawl, run=number, server_time=NOW, counters={"done": number}
            )
            yield cluster.topics.events, events.encode(told)


def _results(cluster: MonitorCluster) -> Iterator[tuple[str, bytes]]:
    ids = {"spiderid": "link", "appid": "shop", "crawlid": "spring"}
    for number, url in ((1, "http://x/a<b"), (2, "http://x/a<b"), (2, "http://x/new")):
        body = {"status_code": 200, "body": f"of run {number}", "run": number, "url": url}
        yield cluster.topics.crawled, json.dumps(ids | body).encode()


async def test_runs_are_listed_and_compared(rest: RestProcess) -> None:
    """The latest two are compared unless others are named; what is not there is refused."""
    sent = {"X_API_Key": KEY}
    listed = (await rest.get(f"/v2/crawl/runs?{ASKED}", **sent)).data
    assert listed["is_complete"] is True
    assert [(one["run"], one["state"], one["crawlid"]) for one in listed["runs"]] == [
        *((2, "finished", "spring"), (1, "finished", "spring"))
    ]
    told = (await rest.get(f"/v2/crawl/compare?{ASKED}", **sent)).data
    assert (told["before"]["run"], told["after"]["run"], told["share"]) == (1, 2, 1)
    assert told["counts"] == {"new": 1, "gone": 0, "status": 0, "content": 1, "same": 0}
    assert told["changes"]["new"] == [{"url": "http://x/new", "before": None, "after": 200}]
    for more, status in {
        "&before=1&after=2&limit=1": 200,
        "&before_crawlid=spring&before=2&after=2": 200,
        "&after=1": 404,
        "&after=9": 404,
        "&before_crawlid=never": 404,
        "&before=0": 422,
    }.items():
        assert (await rest.get(f"/v2/crawl/compare?{ASKED}{more}", **sent)).status == status, more
    other = await rest.get("/v2/crawl/compare?appid=other&crawlid=spring", **sent)
    assert (other.status, other.error["code"]) == (403, "forbidden_appid")
    assert (await rest.get("/v2/crawl/runs?appid=shop&crawlid=never", **sent)).status == 404


async def test_the_screens_show_the_same(rest: RestProcess) -> None:
    """Two pages without any script: the runs with a form, and what it leads to."""
    sent = {"X_API_Key": KEY, "Accept": "text/html"}
    page = (await rest.get(f"/ui/crawl/runs?{ASKED}", **sent)).body.decode()
    assert 'action="/ui/crawl/compare"' in page
    assert page.count('class="state finished"') == 2
    form = f"{ASKED}&spiderid=link&before=1&before_crawlid=spring&after=2"
    page = unescape((await rest.get(f"/ui/crawl/compare?{form}", **sent)).body.decode())
    assert "New pages</dt><dd>1<" in page
    assert "http://x/a<b" in page
    assert (await rest.get(f"/ui/crawl/compare?{ASKED}&after=1", **sent)).status == 404


async def test_comparisons_wait_for_their_turn(rest: RestProcess) -> None:
    """They are made one at a time, and all are answered."""
    sent = {"X_API_Key": KEY}
    asked = [rest.get(f"/v2/crawl/compare?{ASKED}", **sent) for _ in range(3)]
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
