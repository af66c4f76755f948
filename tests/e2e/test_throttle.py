"""Politeness as the site sees it: no window over its hits, and a change is felt at once."""

from __future__ import annotations

import time
from itertools import pairwise

from crawlstream_chaos.witness import Witness
from crawlstream_cli.demo.access_log import LoggedRequest, busiest_windows
from e2e.cluster import Cluster
from e2e.sites import Serve, ServedWeb
from support.waiting import WaitUntil


def visits_since(served: ServedWeb, moment_ms: float) -> int:
    """Requests that arrived after a moment of the monotonic clock."""
    return sum(visit.mono >= moment_ms for visit in served.visits())


async def hits_in_force(cluster: Cluster, host: str) -> int | None:
    """Return the rule that the frontier applies."""
    table = await cluster.rules()
    return table.rule_for(host).effective_hits if table else None


async def test_a_domain_update_changes_the_rate_at_the_site_live(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """A zookeeper request raises, then lowers, what the site sees while it is being crawled."""
    async with serve(hosts=1, pages=900, slow_pages=0) as served:
        host, crawlid = served.web.hosts[0], f"rate-{served.web.port}"
        await cluster.throttle("set", host, "--hits", "2", "--window", "1")
        name = {"appid": "e2e", "crawlid": crawlid}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 3})
        await wait_until(lambda: len(served.fetches()) >= 6, timeout_s=90)
        assert busiest_windows(served.visits(), 1.0)[host] <= 2

        async def update(hits: int) -> None:
            rule = {"action": "domain-update", "domain": host, "window": 1, "hits": hits}
            reply = await witness.answered(witness.feed_request(appid="e2e", **rule))
            assert (reply["action"], reply["domain"]) == ("domain-update", host)
            assert "error" not in reply

            async def is_in_force() -> bool:
                return await hits_in_force(cluster, host) == hits

            await wait_until(is_in_force)

        await update(30)
        await wait_until(lambda: busiest_windows(served.visits(), 1.0)[host] > 4)

        await update(4)
        # Requests that were granted before take a moment to arrive.
        lowered_ms = time.monotonic() * 1000 + 2000
        await wait_until(lambda: visits_since(served, lowered_ms) >= 8)
        late = [visit for visit in served.visits() if visit.mono >= lowered_ms]
        assert busiest_windows(late, 1.0)[host] <= 4
        witness.feed_request(action="stop", spiderid="link", **name)
        await witness.ended(crawlid)


async def test_no_window_of_any_host_exceeds_its_hits(
    serve: Serve, witness: Witness, cluster: Cluster
) -> None:
    """Two hosts under different rules, one moderated and one not: each keeps to its own."""
    async with serve(hosts=2, pages=40, slow_pages=0) as served:
        even, burst = served.web.hosts
        await cluster.throttle("set", even, "--hits", "8", "--window", "1")
        await cluster.throttle("set", burst, "--hits", "12", "--window", "2", "--burst")
        crawlid = f"polite-{served.web.port}"
        name = {"appid": "e2e", "crawlid": crawlid}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 3})
        await witness.ended(crawlid, timeout_s=90)
        visits = served.visits()
        assert served.fetches() == served.truth(maxdepth=3).fetches
    assert busiest_windows(visits, 1.0)[even] <= 8
    assert busiest_windows(visits, 2.0)[burst] <= 12
    gaps = arrivals_of(visits, even)
    # The first grant of a host buys its robots.txt; the page may follow at once.
    assert all(later - earlier > 125 - 40 for earlier, later in gaps[1:])


def arrivals_of(visits: list[LoggedRequest], host: str) -> list[tuple[float, float]]:
    """Consecutive arrivals at a host, as pairs of milliseconds."""
    times = [visit.mono for visit in visits if visit.host == host]
    return list(pairwise(times))


async def test_a_blocked_domain_is_left_alone_until_it_is_unblocked(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """Pages of a blocked domain wait; unblocked, the crawl comes to its whole end."""
    async with serve(hosts=2, pages=20) as served:
        blocked = served.web.hosts[1]
        await cluster.throttle("block", blocked)
        crawlid = f"blocked-{served.web.port}"
        name = {"appid": "e2e", "crawlid": crawlid}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 3})

        async def only_the_blocked_wait() -> bool:
            uuid = witness.feed_request(action="info", spiderid="link", **name)
            info = await witness.answered(uuid)
            return set(info["domains"]) == {blocked}

        is_so: bool = await wait_until(only_the_blocked_wait, timeout_s=90)
        assert is_so
        assert not any(visit.host == blocked for visit in served.visits())
        await cluster.throttle("unblock", blocked)
        await witness.ended(crawlid, timeout_s=90)
        assert served.fetches() == served.truth(maxdepth=3).fetches
