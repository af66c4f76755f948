"""A group with domains in three partitions, judged by the log of the machine that serves all."""

from __future__ import annotations

from ipaddress import IPv4Address

from crawlstream.keys import Partitions
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.scripted_site import page, serving
from crawlstream_chaos.witness import Witness
from support.monitors import MonitorCluster

HOSTS = [str(IPv4Address("127.3.0.1") + n) for n in range(30)]
PATHS = [f"/{n}" for n in range(4)]
HITS, WINDOW_S, CONCURRENCY = 30, 1, 9
STAMP_S = 0.01
"""The site's stamps, and the frontier's milliseconds, may be so much off."""


async def set_group(cluster: MonitorCluster) -> None:
    """All hosts are on one machine; the rule of each would allow far more."""
    settings = cluster.settings()
    default = settings.default_rule
    editor = ThrottleEditor(settings.zookeeper_hosts, settings.throttle_path, default=default)
    await editor.set_rule("default", hits=1_000, window=1, moderated=False, concurrency=100)
    limits = {"hits": HITS, "window": WINDOW_S, "concurrency": CONCURRENCY}
    await editor.add_to_group("hoster", HOSTS, **limits)


async def test_partitions_keep_to_the_rule_of_their_group_together(
    cluster: MonitorCluster, witness: Witness
) -> None:
    """Each has a share of it, for those of the domains that are there."""
    partitions = Partitions(cluster.prefix, 3)
    assert {partitions.of(host) for host in HOSTS} == {0, 1, 2}
    await set_group(cluster)
    with serving({}) as site:
        every = [site.url(path, host) for path in PATHS for host in HOSTS]
        site.pages |= {host + path: page() for host in HOSTS for path in PATHS}
        site.pages[HOSTS[0] + "/"] = page(*every)
        seed = {"url": site.url("/", HOSTS[0]), "appid": "groups", "crawlid": "one", "maxdepth": 1}
        with (
            cluster.kafka_monitor(),
            cluster.redis_monitor(),
            cluster.crawler("link"),
            cluster.crawler("link"),
        ):
            witness.feed(seed)
            await witness.ended("one")
        assert {site.url(visit.path, visit.host) for visit in site.visits} >= set(every)
        times = sorted(visit.at for visit in site.visits)
        for first, beyond in zip(times, times[HITS:], strict=False):
            assert beyond - first >= WINDOW_S - STAMP_S
