"""Groups of domains with crawler processes, judged by the log of the machine that serves all."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.frontier.bench import keep_what_is_answered
from support.waiting import WaitUntil
from support.windows import bursts, group

pytest_plugins = ["support.crawler.fixtures"]

STAMP_S = 0.01
"""The site's stamps, and the frontier's milliseconds, may be so much off."""
ALONE = "127.0.0.9"


def names(number: int) -> list[str]:
    """Hosts that are a domain each; all are served by one machine."""
    return [str(IPv4Address("127.1.0.1") + n) for n in range(number)]


def check_machine(site: CrawlerSite, rule: ThrottleRule) -> int:
    """No window of the machine's log has more requests than its group allows; return all."""
    times = sorted(visit.at for visit in site.visits if visit.host != ALONE)
    for first, beyond in zip(times, times[rule.hits :], strict=False):
        assert beyond - first >= rule.window_s - STAMP_S
    return len(times)


async def crawl_all(
    cluster: CrawlerCluster, site: CrawlerSite, rule: ThrottleRule, hosts: list[str]
) -> None:
    """Two workers fetch one page of each name, and one of another machine."""
    site.pages |= {"/": page()}
    await cluster.set_rules(WIDE_OPEN, {}, groups={"hoster": group(rule, *hosts)})
    with cluster.worker(), cluster.worker():
        urls = [site.url("/", host=host) for host in [*hosts, ALONE]]
        state = await cluster.end_of(await cluster.feed(*urls), timeout_s=120)
    assert state.done == len(hosts) + 1
    assert set(counted(cluster.results()).values()) == {1}


async def test_a_thousand_names_are_one_machine(cluster: CrawlerCluster, site: CrawlerSite) -> None:
    """Each has a rule that would allow a thousand requests per second."""
    rule = bursts(100, 1, 20)
    await crawl_all(cluster, site, rule, names(1_000))
    assert check_machine(site, rule) == 1_000


@both_ways
async def test_robots_txt_counts_for_the_group(cluster: CrawlerCluster, site: CrawlerSite) -> None:
    """The first request of each name as well; nothing is free."""
    cluster.env["ROBOTSTXT_OBEY"] = "true"
    site.pages |= {"/robots.txt": Answer(b"User-agent: *\nDisallow: /no")}
    rule = bursts(40, 1, 10)
    await crawl_all(cluster, site, rule, names(100))
    assert check_machine(site, rule) == 200


@pytest.mark.parametrize("who", ["redis", "worker"])
async def test_a_process_is_killed_in_the_middle(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    redis_server: RunningServer,
    wait_until: WaitUntil,
    who: str,
) -> None:
    """The machine does not notice; every page is fetched."""
    rule, hosts = bursts(20, 1, 10), names(200)
    site.pages |= {"/": page()}
    await keep_what_is_answered(cluster.frontier.scripts.redis)
    await cluster.set_rules(WIDE_OPEN, {}, groups={"hoster": group(rule, *hosts)})
    with cluster.worker() as first, cluster.worker():
        crawl = await cluster.feed(*(site.url("/", host=host) for host in hosts))
        await wait_until(lambda: len(site.visits) >= len(hosts) // 4)
        if who == "redis":
            redis_server.kill()
            redis_server.start()
        else:
            first.kill()

        async def is_done() -> bool:
            await cluster.frontier.maintenance.tend()
            return (await cluster.state_of(crawl)).done == len(hosts)

        await wait_until(is_done, timeout_s=120)
    check_machine(site, rule)
