"""Redis is disposable: Kafka's records are enough to end every crawl that was running."""

from __future__ import annotations

import json

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import WaitUntil

SLOW, QUICK = "1", "200"
"""Requests a host and second: while there shall be something left to lose, and after that."""


async def test_crawls_survive_the_loss_of_redis(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """Unfinished crawls begin again and deliver all, under the same ids; what was over stays so."""
    async with serve(hosts=3, pages=90, slow_pages=0) as served, serve(hosts=1, pages=4) as small:
        number = served.web.port
        name = {"appid": "lost", "spiderid": "link"}
        under_way, ended, stopped = f"way-{number}", f"ended-{number}", f"stopped-{number}"
        witness.feed({**name, "url": small.web.seed_url, "crawlid": ended, "maxdepth": 9})
        await witness.ended(ended)
        for host in served.web.hosts:
            await cluster.throttle("set", host, "--hits", SLOW, "--window", "1")
        witness.feed({**name, "url": served.url("/"), "crawlid": under_way, "maxdepth": 9})
        witness.feed({**name, "url": served.url("/", 1), "crawlid": stopped, "maxdepth": 9})
        await wait_until(lambda: len(witness.results(stopped)) > 0, timeout_s=60)
        stop = witness.feed_request(action="stop", crawlid=stopped, **name)
        assert (await witness.ended(stopped))["event"] == "crawl_stopped"
        await wait_until(lambda: len(witness.results(under_way)) >= 10, timeout_s=60)
        assert not witness.ending(under_way)

        would = json.loads((await cluster.run("recover", "--dry-run", "--json")).out)
        assert under_way in {crawl["crawlid"] for crawl in would["unfinished"]}
        assert not {ended, stopped} & {crawl["crawlid"] for crawl in would["unfinished"]}

        told, seen = len(witness.results(stopped)), dict(small.fetches())
        async with cluster.redis() as redis:
            await redis.flushall()
        for host in served.web.hosts:
            await cluster.throttle("set", host, "--hits", QUICK, "--window", "1")
        ending = await witness.ended(under_way, timeout_s=120)
        truth = served.truth(maxdepth=9)
        assert dict(small.fetches()) == seen

    results = witness.results(under_way)
    assert ending["event"] == "crawl_finished"
    assert {result["url"]: result["status_code"] for result in results} == truth.delivered
    ids = {(result["url"], result["id"]) for result in results}
    assert len(ids) == len(truth.delivered), "a repeat came under another id"
    assert any(result.get("recovered") for result in results)
    assert len(witness.results(stopped)) == told
    replies = [
        seen for seen in witness.records("outbound_firehose") if seen.value.get("uuid") == stop
    ]
    assert len(replies) == 1, "an old stop was answered again"
