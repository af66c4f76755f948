"""``/v2/scrape`` without a crawler, and between real servers: refusals, and replies of others."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream_frontier.scrapes.scrape_names import ScrapeNames
from support.monitors import MonitorCluster
from support.rest import Answer, RestProcess, rest_beside_monitors, running_rest
from support.waiting import WaitUntil

KEYS = "submit@agents/name=me/scrapes=2:secret-of-me-0123456789,operate:secret-of-all-0123456789"
ME, ALL = {"X-API-Key": "secret-of-me-0123456789"}, {"X-API-Key": "secret-of-all-0123456789"}

_LOOKED_S = 0.5
"""Seconds after which a process that is ready has started its worker, if it may."""


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """Return a service with keys; both monitors run."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_beside_monitors(cluster, folder, wait_s=5, CRAWLSTREAM_API_KEYS=KEYS) as service:
        yield service


async def pretend_crawler(redis: Redis, cluster: MonitorCluster) -> None:
    """Let a heartbeat of a crawler be there for a while."""
    process = Process(kind="crawler", spider="link")
    await Heartbeat(redis, cluster.keys, process, work=lambda: Work(0, 0)).join()


def workers(rest: RestProcess) -> list[psutil.Process]:
    """Return the extraction processes of a service."""
    children = psutil.Process(rest.process.pid).children()
    return [one for one in children if "crawlstream_extract.workers.child" in one.cmdline()]


async def test_a_worker_is_there_before_the_first_scrape(
    rest: RestProcess, wait_until: WaitUntil
) -> None:
    """A first page does not wait for its start; the second one starts when pages wait."""
    (worker,) = await wait_until(lambda: workers(rest))
    assert worker.memory_info().rss < 80 << 20


async def test_without_a_crawler_nothing_is_fed(rest: RestProcess) -> None:
    """The page would wait, perhaps without a limit: the client learns it at once."""
    answer = await rest.post("/v2/scrape", {"url": "http://a.example/"}, **ME)
    assert (answer.status, answer.error["code"]) == (409, "no_worker")
    assert "link" in answer.error["message"]


async def test_a_client_has_its_number_of_scrapes(
    rest: RestProcess, redis: Redis, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """Two, by its key; each is a seed that is wanted with its place, and can be given up."""
    await pretend_crawler(redis, cluster)

    urls = [f"http://{name}.example/" for name in "abc"]
    answers = list[Answer]()

    async def is_fed() -> bool:
        answer = await rest.post("/v2/scrape", {"url": urls[0], "wait": 0}, **ME)
        answers.append(answer)
        return answer.status == 202

    assert await wait_until(is_fed), answers[-1].body
    answers = answers[-1:] + [
        await rest.post("/v2/scrape", {"url": url, "wait": 0}, **ME) for url in urls[1:]
    ]
    assert [answer.status for answer in answers] == [202, 202, 429], answers
    assert answers[2].error["code"] == "too_many_scrapes"
    path = answers[0].headers["location"]
    assert (await rest.get(path, **ME)).status == 202
    assert (await rest.call("DELETE", path, None, **ME)).status == 200
    assert (await rest.get(path, **ME)).error["code"] == "no_such_scrape"
    again = await rest.post("/v2/scrape", {"url": urls[2], "wait": 0}, **ME)
    assert again.status == 202
    id_ = again.data["id"]
    fed = [json.loads(raw) for raw in cluster.read_all(cluster.topics.incoming)]
    (seed,) = [one for one in fed if one["uuid"] == id_]
    assert (seed["answer"], seed["priority"], seed["appid"]) == ("page", 100, "agents")


async def test_a_key_reads_the_scrapes_of_its_applications(
    rest: RestProcess, cluster: MonitorCluster, wait_until: WaitUntil, tmp_path: Path
) -> None:
    """An id of another application does not exist for it; a new process knows the last hour's."""
    id_ = ScrapeNames().new(60).id
    reply = {
        "action": "page",
        "uuid": id_,
        "appid": "others",
        "crawlid": "scrape",
        "spiderid": "link",
        "run": 1,
        "reason": "dns",
        "attempts": 3,
        "id": "f" * 32,
        "url": "http://a.example/",
        "server_time": int(time.time()),
    }
    async with KafkaSink(Kafka([cluster.kafka_hosts])) as sink:
        await sink.send([Out(cluster.topics.outbound, json.dumps(reply).encode())])

    async def is_there() -> bool:
        return (await rest.get(f"/v2/scrape/{id_}", **ALL)).status == 200

    assert await wait_until(is_there)
    assert (await rest.get(f"/v2/scrape/{id_}", **ME)).status == 404
    read_only = {"CRAWLSTREAM_API_KEYS": KEYS.replace("operate:", "read:").partition(",")[2]}
    with running_rest(cluster, tmp_path, **read_only) as fresh:
        found = await fresh.get(f"/v2/scrape/{id_}", **ALL)
        assert (found.data["state"], found.data["reason"]) == ("failed", "dns")
        await asyncio.sleep(_LOOKED_S)
        assert not workers(fresh)


async def test_waiting_pages_of_a_site_are_listed(rest: RestProcess, wait_until: WaitUntil) -> None:
    """By their applications: a key lists those of its own, and no list with those of others."""
    feed = [
        {"appid": appid, "crawlid": "listed", "url": f"http://www.example.org/{appid}/{name}"}
        for appid in ("agents", "others")
        for name in "ab"
    ]
    assert (await rest.post("/v2/crawls", feed, **ALL)).status == 202
    order = {"url": "http://example.org/", "sources": ["frontier"], "wait": 60}
    mapped = list[Answer]()

    async def all_wait() -> bool:
        mapped.append(await rest.post("/v2/map", order, **ALL))
        return bool(mapped[-1].data["total"] == 4)

    assert await wait_until(all_wait), mapped[-1].body
    (every,) = mapped[-1:]
    assert (every.data["complete"], every.data["urls"][0]["from"]) == (True, ["frontier"])
    own = await rest.post("/v2/map", {**order, "match": "/[bo]"}, **ME)
    assert [one["url"] for one in own.data["urls"]] == ["http://www.example.org/agents/b"]
    assert (await rest.get(f"/v2/map/{own.data['id']}", **ALL)).data == own.data
    assert (await rest.get(f"/v2/map/{every.data['id']}", **ME)).error["code"] == "no_such_map"
    one = await rest.post("/v2/map", {**order, "appid": "others", "limit": 1}, **ALL)
    assert (one.data["total"], one.data["complete"]) == (2, False)
    assert (await rest.get(f"/v2/map/{one.data['id']}", **ME)).status == 404
