"""Rules while ZooKeeper and its node meet every fate: limits never rise, and work goes on.

CRAWLSTREAM_LONG=1 lets each fate last as long as it is meant to be outlived.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from kazoo.client import KazooClient

from crawlstream.boot.clients import redis_client
from crawlstream.boot.settings import load_settings
from crawlstream.keys import FrontierKeys
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.processes import freeze
from crawlstream_chaos.witness import Witness
from crawlstream_cli.demo.access_log import busiest_windows
from crawlstream_frontier.frontier import Frontier
from e2e.cluster import Cluster
from e2e.sites import Serve, ServedWeb
from support.waiting import WaitUntil

LONG = os.environ.get("CRAWLSTREAM_LONG") == "1"
FROZEN_S = 60.0 if LONG else 3.0
HITS = 4
"""A second, for each of the two hosts; one of them evenly, one in bursts."""


class Node:
    """The node, as a foreign tool and the editor write it, and as the frontier applies it."""

    def __init__(self, cluster: Cluster) -> None:
        settings = load_settings(**cluster.environment)
        self.path = settings.throttle_path
        self.editor = ThrottleEditor(
            settings.zookeeper_hosts, self.path, default=settings.default_rule
        )
        self._settings = settings
        self._client = KazooClient(hosts=cluster.environment["ZOOKEEPER_HOSTS"])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[KazooClient]:
        """A client for the length of a block."""
        await asyncio.to_thread(self._client.start)
        try:
            yield self._client
        finally:
            await asyncio.to_thread(self._client.stop)
            self._client.close()

    async def hits_in_force(self, host: str) -> int | None:
        """Return the hits that the frontier applies."""
        async with redis_client(self._settings) as redis:
            table = await Frontier(redis, FrontierKeys(self._settings.namespace)).rules.table()
        return table.rule_for(host).hits if table else None


def nonsense() -> Iterator[bytes]:
    """Contents of a node that are not a valid table."""
    yield b"domains: {a: ["
    yield b""
    yield b"domains: null"
    yield random.randbytes(1024 * 1024 - 2048)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_limits_hold_whatever_becomes_of_zookeeper(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """Nonsense, an empty node, a frozen and a killed server: all goes on by the last rules."""
    node = Node(cluster)
    async with serve(hosts=2, pages=2_000, slow_pages=0) as served, node.open() as client:
        path, name = node.path, f"zoo-{served.web.port}"
        for host, moderated in zip(served.web.hosts, (True, False), strict=True):
            await node.editor.set_rule(host, hits=HITS, window=1, moderated=moderated)
        await wait_until(lambda: is_in_force(node, served, HITS))
        witness.feed({"url": served.web.seed_url, "appid": "chaos", "crawlid": name, "maxdepth": 9})

        async def goes_on() -> None:
            seen = len(served.fetches())
            await wait_until(lambda: len(served.fetches()) >= seen + 8, timeout_s=90)
            most = busiest_windows(served.visits(), 1.0)
            assert max(most.values()) <= HITS, most

        await goes_on()
        good, _ = await asyncio.to_thread(client.get, path)
        try:
            for bad in nonsense():
                await asyncio.to_thread(client.set, path, bad)
                await goes_on()
        finally:
            await asyncio.to_thread(client.set, path, good)
        (pid,) = await cluster.pids("zookeeper")
        freeze(pid)
        try:
            await asyncio.sleep(FROZEN_S)
            await goes_on()
        finally:
            # By now the cluster may have put another in its place.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        await cluster.kill("zookeeper")
        await goes_on()
        # Two people lower two rules in the same moment.
        lower = [node.editor.set_rule(host, hits=HITS - 1) for host in served.web.hosts]
        await asyncio.gather(*lower)
        await wait_until(lambda: is_in_force(node, served, HITS - 1))
        await goes_on()
        witness.feed_request(action="stop", appid="chaos", crawlid=name, spiderid="link")
        await witness.ended(name)


async def is_in_force(node: Node, served: ServedWeb, hits: int) -> bool:
    """Return true if the frontier applies this number of hits to both hosts."""
    return {await node.hits_in_force(host) for host in served.web.hosts} == {hits}


async def test_a_zookeeper_made_anew_rules_once_it_is_adopted(
    cluster: Cluster, wait_until: WaitUntil
) -> None:
    """Its rules wait for a person's word; from then on its edits take effect like any."""
    node, host = Node(cluster), "adopted.com"
    await node.editor.set_rule(host, hits=7, window=2)

    async def hits_are(hits: int) -> bool:
        return await node.hits_in_force(host) == hits

    await wait_until(lambda: hits_are(7))
    async with node.open() as client:
        good, _ = await asyncio.to_thread(client.get, node.path)
        await asyncio.to_thread(client.delete, node.path)
        anew = good.replace(b"hits: 7", b"hits: 9")
        assert anew != good
        await asyncio.to_thread(client.create, node.path, anew)
    log = cluster.local.home.logs / "redis-monitor.log"
    await wait_until(lambda: '"refused"' in log.read_text())
    assert await hits_are(7)
    await cluster.throttle("adopt")
    assert await hits_are(9)
    done = await cluster.run("throttle", "show", f"WWW.{host}.", "--json")
    said = json.loads(done.out)
    assert (said["domain"], said["hits"], said["source"]) == (host, 9, "own")
    await node.editor.set_rule(host, hits=8)
    await wait_until(lambda: hits_are(8))
    await node.editor.remove_rule(host)
