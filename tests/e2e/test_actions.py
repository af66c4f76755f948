"""info and stop: every request is answered, by its own uuid, in the shape that clients know."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import WaitUntil

INFO_OF_CRAWL = {
    "appid", "crawlid", "spiderid", "uuid", "server_time", "total_pending", "total_domains",
    "domains",
}  # fmt: skip
LEDGER = {
    "state", "pending", "in_flight", "done", "failed", "filtered", "started", "last_activity",
}  # fmt: skip
INFO_OF_APP = {
    "appid", "spiderid", "uuid", "server_time", "total_pending", "total_domains",
    "total_crawlids", "crawlids",
}  # fmt: skip
STOPPED = {"action", "appid", "crawlid", "spiderid", "total_purged", "uuid", "server_time"}


async def test_info_and_stop_of_a_crawl_under_way(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """A held-back crawl is counted, listed, and purged; its ending agrees with the ledger."""
    async with serve(hosts=1, pages=30) as served:
        host = served.web.hosts[0]
        await cluster.throttle("set", host, "--hits", "4", "--window", "10", "--burst")
        name = {"appid": f"app-{served.web.port}", "spiderid": "link", "crawlid": "held-back"}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 3, "priority": 30})
        await wait_until(lambda: len(witness.results("held-back")) >= 3, timeout_s=90)

        async def ask(**request: Any) -> dict[str, Any]:
            uuid = witness.feed_request(**request)
            return await witness.answered(uuid)

        crawl = await ask(action="info", **name)
        assert crawl.keys() >= INFO_OF_CRAWL | LEDGER
        assert "action" not in crawl
        assert crawl["state"] == "running"
        assert crawl["total_pending"] == crawl["domains"][host]["total"] > 0
        assert crawl["domains"][host].keys() == {"total", "high_priority", "low_priority"}
        assert crawl["total_domains"] == 1

        app = await ask(action="info", appid=name["appid"], spiderid="link")
        assert app.keys() >= INFO_OF_APP
        assert app["total_crawlids"] == 1
        assert app["crawlids"]["held-back"].keys() >= {"total", "distinct_domains", "domains"}
        assert app["total_pending"] == app["crawlids"]["held-back"]["total"]

        stopped = await ask(action="stop", **name)
        assert stopped.keys() >= STOPPED
        assert stopped["action"] == "stop"
        assert stopped["total_purged"] > 0
        ending = await witness.ended("held-back")
        fetched = len(served.fetches())
        counters = ending["counters"]
        assert ending["event"] == "crawl_stopped"
        assert counters["stopped"] >= stopped["total_purged"]
        assert counters["admitted"] == sum(
            counters[end]
            for end in ("done", "failed", "redirected", "skipped", "stopped", "expired")
        )
        assert len(served.fetches()) == fetched
    assert len(witness.results("held-back")) == counters["done"]


async def test_a_person_pauses_moves_and_resumes_a_crawl(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """Fetches no page of a paused crawl; after its resume, the crawl ends complete."""
    async with serve(hosts=1, pages=20) as served:
        host = served.web.hosts[0]
        await cluster.throttle("set", host, "--hits", "4", "--window", "20", "--burst")
        name = {"appid": f"app-{served.web.port}", "spiderid": "link", "crawlid": "paused"}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 3})
        await wait_until(lambda: len(witness.results("paused")) >= 3, timeout_s=90)

        async def say(verb: str, *more: str) -> dict[str, Any]:
            options = ("--appid", name["appid"], "--json")
            done = await cluster.run(verb, "paused", *more, *options)
            assert done.status == 0, done.err
            reply: dict[str, Any] = json.loads(done.out)
            return reply

        assert (await say("pause"))["run"] >= 1
        await wait_until(lambda: is_quiet(say))
        fetched = served.fetches()
        told = await say("info")
        assert (told["state"], told["held_back"]) == ("paused", {"paused": told["pending"]})
        await cluster.throttle("set", host, "--hits", "100", "--window", "1", "--burst")
        assert (await say("reprioritize", "90"))["priority"] == 90
        assert served.fetches() == fetched
        assert "error" not in await say("resume")
        counters = (await witness.ended("paused"))["counters"]
        ends = ("done", "failed", "redirected")
        assert counters["admitted"] == sum(counters[end] for end in ends)
        assert set(served.fetches()) > set(fetched)


async def is_quiet(say: Callable[[str], Awaitable[dict[str, Any]]]) -> bool:
    """Return true if no page of the crawl is in flight."""
    told = await say("info")
    return bool(told["in_flight"] == 0)


@pytest.mark.parametrize("action", ["stop", "info"])
async def test_an_unknown_crawl_is_answered_too(action: str, witness: Witness) -> None:
    """An action on an unknown crawl gets an answer, not silence."""
    uuid = witness.feed_request(action=action, appid="e2e", spiderid="link", crawlid="never-was")
    reply = await witness.answered(uuid)
    assert reply["crawlid"] == "never-was"
    if action == "stop":
        assert reply["error"]
    else:
        assert reply["total_pending"] == 0


async def test_two_requests_of_the_same_ids_are_both_answered(
    witness: Witness, wait_until: WaitUntil
) -> None:
    """Twenty equal questions under twenty uuids get twenty answers."""
    uuids = [witness.feed_request(action="info", appid="e2e", spiderid="link") for _ in range(20)]
    await wait_until(lambda: all(witness.reply(uuid) for uuid in uuids))


async def test_an_expired_crawl_says_so(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """A crawl whose time is already past ends at once as expired, without a fetch."""
    async with serve(hosts=1, pages=1) as served:
        crawlid = f"expired-{served.web.port}"
        name = {"appid": "e2e", "crawlid": crawlid}
        witness.feed({"url": served.web.seed_url, **name, "expires": 1})
        ending = await witness.ended(crawlid, timeout_s=90)
        assert ending["event"] == "crawl_expired"
        assert not served.visits()
    (reply,) = await wait_until(lambda: witness.records("outbound_firehose", crawlid=crawlid))
    assert reply.value["action"] == "expired"
    assert reply.value["total_expired"] == 1
    assert "uuid" not in reply.value
