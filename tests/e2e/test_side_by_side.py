"""Two clusters on one machine know nothing of each other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from e2e.cluster import Cluster, start_cluster
from e2e.sites import Serve


async def test_two_clusters_crawl_side_by_side(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """Runs the same crawl on two clusters: each delivers every page and stops alone."""
    other = await asyncio.to_thread(start_cluster, tmp_path / "other", tied=False)
    try:
        async with serve(hosts=3, pages=40) as served:
            truth = served.truth(maxdepth=2)
            arguments = ("crawl", served.web.seed_url, "-d", "2", "--scope", "any", "-o", "-")
            both = await asyncio.gather(cluster.run(*arguments), other.run(*arguments))
        for done in both:
            assert done.status == 0, done.err
            pages = [json.loads(line) for line in done.out.splitlines()]
            assert {page["url"]: page["status_code"] for page in pages} == truth.delivered
            assert len(pages) == len(truth.delivered)
    finally:
        assert await asyncio.to_thread(other.local.stop) == 0
    assert not await asyncio.to_thread(other.local.processes)
    assert await cluster.pids("kafka")
