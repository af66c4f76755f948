"""Processes that are killed while scrapes are in progress: each page comes, under its id."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlstream_chaos.scripted_site import Answer, SeenRequest
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.web.scrapes import another, site_of
from support.rest import Answer as HttpAnswer
from support.rest import RestProcess
from support.waiting import PATIENCE_S, WaitUntil

SCRAPES = 12
KEY = {"X-API-Key": "key-of-these-tests-0123456789"}
"""Key of a client with no other scrapes in progress, as those of other tests may be."""


@pytest.fixture
async def rest(cluster: Cluster, tmp_path: Path) -> AsyncIterator[RestProcess]:
    """Return a REST process that has one client."""
    keys = f"operate/name=kills:{KEY['X-API-Key']}"
    async with another(cluster, tmp_path, CRAWLSTREAM_API_KEYS=keys) as process:
        yield process


async def begin(rest: RestProcess, url: str) -> str:
    """Scrape a URL, and return the path where its page will be."""
    asked = {"url": url, "wait": 0, "deadline": 3600}
    answer = await rest.post("/v2/scrape", asked, **KEY)
    assert answer.status == 202, answer.body
    return answer.headers["location"]


async def kill_all(cluster: Cluster, kind: str) -> None:
    """Kill all processes of a kind; the supervisor starts them again."""
    for pid in await cluster.pids(kind):
        os.kill(pid, signal.SIGKILL)


async def page_of(rest: RestProcess, path: str) -> HttpAnswer:
    """Wait for the page of a scrape for as long as a busy machine may take."""
    deadline = time.monotonic() + PATIENCE_S
    while (answer := await rest.get(f"{path}?wait=30", **KEY)).status == 202:
        assert time.monotonic() < deadline, answer.body
    return answer


async def check_one_page(witness: Witness, answer: HttpAnswer) -> None:
    """Check that a page came once, or again under the same id, and that its seed was answered."""
    assert answer.status == 200, answer.body
    assert (answer.data["state"], answer.data["page"]["status_code"]) == ("done", 200)
    page = answer.data["page"]
    await witness.answered(answer.data["id"])
    results = witness.records("crawled_firehose", url=page["url"])
    assert {record.value["id"] for record in results} == {page["id"]}
    replies = witness.records("outbound_firehose", uuid=answer.data["id"])
    assert {record.value["action"] for record in replies} == {"page"}
    assert {record.value["id"] for record in replies} == {page["id"]}


async def test_crawlers_that_are_killed_leave_the_page_to_others(
    cluster: Cluster, rest: RestProcess, witness: Witness, wait_until: WaitUntil
) -> None:
    """The page that they were fetching is fetched again, and answers the same scrape."""
    gate = threading.Event()

    def after_the_kill(_visit: SeenRequest) -> Answer:
        gate.wait(PATIENCE_S)
        return Answer(b"<p>The sea rises.</p>")

    with site_of({"/gated": after_the_kill}) as (site, host):
        url = site.url("/gated", host)
        path = await begin(rest, url)
        assert await wait_until(site.paths)
        await kill_all(cluster, "crawler")
        gate.set()
        answer = await page_of(rest, path)
        await check_one_page(witness, answer)
        assert "The sea rises." in answer.data["markdown"]
        assert site.paths() == ["/gated", "/gated"]


async def test_the_scrape_of_a_killed_rest_process_ends_with_its_page(
    cluster: Cluster, rest: RestProcess, witness: Witness, wait_until: WaitUntil
) -> None:
    """Another process returns the page, and its site and client have their places again."""
    gate = threading.Event()

    def after_the_kill(_visit: SeenRequest) -> Answer:
        gate.wait(PATIENCE_S)
        return Answer(b"<p>The sea rises.</p>")

    with site_of({"/gated": after_the_kill}) as (site, host):
        path = await begin(rest, site.url("/gated", host))
        assert await wait_until(site.paths)
        rest.process.kill()
        async with cluster.redis() as redis:

            async def taken() -> list[bytes]:
                return [key async for key in redis.scan_iter("*}scrape*kills")]

            assert await taken()
            gate.set()
            assert await wait_until(lambda: witness.records("outbound_firehose", uuid=path[11:]))

            async def is_free() -> bool:
                return not await taken()

            assert await wait_until(is_free, timeout_s=20)


async def test_a_kafka_monitor_that_is_killed_admits_each_seed_once(
    cluster: Cluster, rest: RestProcess, witness: Witness
) -> None:
    """Seeds that it has read, or that come while it is away, are admitted when it is back."""
    pages = {f"/{n}": Answer(b"<p>The sea rises.</p>") for n in range(SCRAPES)}
    with site_of(pages) as (site, host):
        await kill_all(cluster, "kafka-monitor")
        begun = [asyncio.create_task(begin(rest, site.url(path, host))) for path in pages]
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        await kill_all(cluster, "kafka-monitor")
        paths = [await one for one in begun]
        answers = await asyncio.gather(*(page_of(rest, path) for path in paths))
        for answer in answers:
            await check_one_page(witness, answer)
        assert sorted(site.paths()) == sorted(pages)
