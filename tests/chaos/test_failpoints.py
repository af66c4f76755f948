"""A crawler dies at each step of the order of effects; what it was doing is done again."""

from __future__ import annotations

import signal

from crawlstream.boot.failpoints import STEPS
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve

DONE_FIRST = 5
"""How often a step is passed before it kills: some pages are complete, some in flight."""


async def test_a_death_at_any_step_loses_no_page(
    serve: Serve, witness: Witness, cluster: Cluster
) -> None:
    """A crawler is killed at each step: every page comes, repeats under their id."""
    async with serve(hosts=6, pages=300, slow_pages=0) as served:
        truth = served.truth(maxdepth=9)
        name = {"appid": "chaos", "crawlid": f"steps-{served.web.port}"}
        async with cluster.without("crawler"):
            witness.feed({"url": served.web.seed_url, **name, "maxdepth": 9})
            for step in STEPS:
                ended = await cluster.run_crawler({"FAILPOINT": f"{step}:kill:{DONE_FIRST}"})
                assert ended == -signal.SIGKILL, f"the crawler did not die at {step}"
        ending = await witness.ended(name["crawlid"], timeout_s=90)
    results = witness.results(name["crawlid"])
    assert ending["event"] == "crawl_finished"
    assert {result["url"]: result["status_code"] for result in results} == truth.delivered
    ids = {(result["url"], result["id"]) for result in results}
    assert len(ids) == len(truth.delivered), "a repeat came under another id"
    assert ending["counters"]["done"] == len(truth.delivered)
    assert not ending["counters"]["failed"] - len(truth.forbidden)
