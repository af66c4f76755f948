"""Crawls that make no progress: over REST they say why, and are found by their ids alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.tasks import beside
from support.monitors import MonitorCluster
from support.rest import RestProcess, rest_beside_monitors
from support.waiting import WaitUntil

APP = "conditions"


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service with both monitors, without crawlers."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_beside_monitors(cluster, folder, wait_s=50) as service:
        yield service


def seed(crawlid: str, **fields: object) -> dict[str, Any]:
    """A seed that no crawler will fetch."""
    return {"appid": APP, "crawlid": crawlid, "url": "http://127.0.0.1/", **fields}


async def _state(rest: RestProcess, crawlid: str) -> Any:
    answer = await rest.get(f"/v2/crawl?appid={APP}&crawlid={crawlid}")
    return answer.data if answer.status == 200 else None


async def test_a_crawl_is_found_by_its_id_and_says_why_it_stands(
    rest: RestProcess, redis: Redis, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """Its spider may be left out if only one has such a crawl; a misspelt spider is named."""
    heartbeat = Heartbeat(redis, cluster.keys, Process(kind="crawler", spider="link"))
    async with beside(heartbeat.run()):
        await _name_the_spider(rest, wait_until)


async def _name_the_spider(rest: RestProcess, wait_until: WaitUntil) -> None:
    misspelt = seed("misspelt", spiderid="lnik")
    told = "No crawler of spider lnik is running (running: link; did you mean link?)"

    async def warnings() -> list[str]:
        return list((await rest.post("/v2/check", misspelt)).data["warnings"])

    async def is_warned() -> bool:
        return await warnings() == [f"{told}, so its seeds would wait."]

    await wait_until(is_warned)
    assert (await rest.post("/v2/crawls", misspelt)).data["warnings"] == await warnings()
    assert (await rest.post("/v2/check", seed("misspelt"))).data["warnings"] == []

    async def is_known() -> bool:
        return await _state(rest, "misspelt") is not None

    await wait_until(is_known)
    state = await _state(rest, "misspelt")
    assert (state["spiderid"], state["state"]) == ("lnik", "running")
    assert (state["waits_for"], state["problem"]) == (["lnik"], f"{told}, so 1 page waits")
    (listed,) = (await rest.get(f"/v2/crawls?appid={APP}&spiderid=lnik")).data["crawls"]
    assert (listed["waits_for"], listed["problem"]) == (state["waits_for"], state["problem"])

    target = {"appid": APP, "crawlid": "misspelt"}
    wrong = await rest.post("/v2/crawl/stop", {**target, "spiderid": "link"})
    assert (wrong.status, wrong.error["code"]) == (404, "unknown_crawl")
    assert wrong.error["message"].endswith("spiders with a crawl of this id: lnik (running)")
    await rest.post("/v2/crawls", seed("misspelt", spiderid="other"))

    async def is_ambiguous() -> bool:
        return (await rest.post("/v2/crawl/pause", target)).status == 422

    await wait_until(is_ambiguous)
    refused = await rest.post("/v2/crawl/stop", target)
    assert (refused.status, refused.error["code"]) == (422, "ambiguous_crawl")
    assert "lnik, other" in refused.error["message"]
    for spider in ("lnik", "other"):
        assert (await rest.post("/v2/crawl/stop", {**target, "spiderid": spider})).status == 200
