"""A process and its partitions: several Redis, or a cluster, of which one may be away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from redis.asyncio import Redis

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, RedisUnavailable
from crawlstream.model.state import FrontierState
from crawlstream.tasks import end
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.opening.startup_check import agree_later, check_frontiers, keep_agreeing
from crawlstream_frontier.partitions.frontiers import Frontiers
from support.crawler.tls import make_certificate
from support.partitions.servers.divided import THREE, addresses, divided, divided_settings
from support.partitions.servers.redis_cluster import redis_cluster
from support.waiting import wait_until

PASSWORD = "s3cret of the nodes"  # noqa: S105  of servers that end with the test


async def _state(frontier: Frontier) -> FrontierState:
    return await frontier.queries.state()


async def _clocks(frontiers: Frontiers) -> set[int]:
    """The partitions in which calls take effect."""
    answers = await frontiers.query(lambda frontier: frontier.maintenance.tend())
    return {*answers.by_partition}


async def test_each_server_has_its_share(three: Sequence[RunningServer]) -> None:
    """Contiguous, in the order of the servers; the layout says which, so that none has two."""
    settings = divided_settings(REDIS_HOSTS=addresses(three), CRAWLSTREAM_PARTITIONS=6)
    async with divided(settings) as frontiers:
        assert len(frontiers) == 6
        for number, server in enumerate(three):
            async with Redis(port=server.port) as client:
                layout = frontiers.partitions.root.layout()
                shares = [frontiers.partitions.keys(p).meta() for p in range(6)]
                own = shares[2 * number : 2 * number + 2]
                assert {*await client.keys()} == {name.encode() for name in (layout, *own)}
                assert await client.get(layout) == b"1/6:%d-%d" % (2 * number, 2 * number + 1)
        assert await _clocks(frontiers) == {*range(6)}


async def test_servers_in_another_order_are_refused(three: Sequence[RunningServer]) -> None:
    """Partitions would be created a second time, on servers that do not have them."""
    async with divided(divided_settings(REDIS_HOSTS=addresses(three))):
        pass
    for servers in ([three[1], three[0], three[2]], [three[1]]):
        async with open_frontiers(
            divided_settings(REDIS_HOSTS=addresses(servers), CRAWLSTREAM_PARTITIONS=THREE)
        ) as frontiers:
            with pytest.raises(ConfigError, match=r"has partition 1 of .* list the servers in"):
                await check_frontiers(frontiers)


async def test_a_process_starts_while_a_server_is_away(
    three: Sequence[RunningServer],
) -> None:
    """An unavailable partition is named; the others go on, and it is created when it comes."""
    three[1].kill()
    async with open_frontiers(divided_settings(REDIS_HOSTS=addresses(three))) as frontiers:
        missing = await check_frontiers(frontiers)
        assert [*missing] == [1]
        assert (
            f"Redis does not answer: Error 111 connecting to 127.0.0.1:{three[1].port}"
            in (missing[1])
        )
        assert frontiers.name(1) == f"partition 1 (127.0.0.1:{three[1].port})"
        assert await _clocks(frontiers) == {0, 2}
        stop = asyncio.Event()
        agreeing = asyncio.create_task(agree_later(frontiers, missing, stop))
        three[1].start()
        await agreeing
        assert not stop.is_set()
        assert await _clocks(frontiers) == {0, 1, 2}


async def test_a_server_that_comes_with_another_layout_ends_the_process(
    three: Sequence[RunningServer],
) -> None:
    """It was away when the process started, and would have another part of the domains."""
    async with Redis(port=three[1].port) as client:
        await client.set("{cs0}layout", "1/4:1-1")
        await client.save()
    three[1].kill()
    async with open_frontiers(divided_settings(REDIS_HOSTS=addresses(three))) as frontiers:
        missing = await check_frontiers(frontiers)
        stop = asyncio.Event()
        agreeing = asyncio.create_task(agree_later(frontiers, missing, stop))
        three[1].start()
        await agreeing
        assert stop.is_set()


async def test_a_partition_that_loses_its_data_is_created_anew(frontiers: Frontiers) -> None:
    """A process that reads Kafka again does; as after a restart, for its domains had requests."""
    agreeing = asyncio.create_task(keep_agreeing(frontiers, (), asyncio.Event()))
    try:
        await frontiers.servers[1].redis.flushall()
        await wait_until(lambda: _has_clocks(frontiers, {0, 1, 2}))
    finally:
        await end([agreeing])
    restarts = await frontiers.query(
        lambda its: its.scripts.redis.hget(its.scripts.keys.meta(), "restart")
    )
    assert [float(at) > 0 for at in restarts.values] == [False, True, False]


async def _has_clocks(frontiers: Frontiers, partitions: set[int]) -> bool:
    return await _clocks(frontiers) == partitions


async def test_who_does_not_read_kafka_waits_for_a_partition_without_data(
    frontiers: Frontiers,
) -> None:
    """It would begin to work in it as if no domain had had requests."""
    await frontiers.servers[1].redis.flushall()
    missing = await check_frontiers(frontiers, "away")
    assert missing == {1: "it has no data yet, or has lost it"}
    assert await _clocks(frontiers) == {0, 2}
    assert not await check_frontiers(frontiers, "lost")
    assert await _clocks(frontiers) == {0, 1, 2}


async def test_nobody_answers() -> None:
    """A process waits for the first of them, as it would for the only one."""
    settings = divided_settings(REDIS_HOSTS="127.0.0.1:1,127.0.0.1:2")
    async with open_frontiers(settings) as frontiers:
        with pytest.raises(RedisUnavailable, match="does not answer"):
            await check_frontiers(frontiers)
        with pytest.raises(RedisUnavailable, match="does not answer"):
            await frontiers.query(_state)


async def _tell(frontiers: Frontiers, partition: int) -> None:
    """Let a partition wake those that tend it."""
    scripts = frontiers[partition].scripts
    channel = scripts.keys.wake_channel("tend")
    await scripts.redis.eval("return redis.call('SPUBLISH', KEYS[1], '1')", 1, channel)


async def _wakes(frontiers: Frontiers, partition: int) -> None:
    """A sleeper of a partition notices it; woken first by its own subscription."""
    sleeper = frontiers.sleeper(partition, "tend")
    await sleeper.start()
    try:
        await sleeper.sleep(60)
        woken = asyncio.create_task(sleeper.sleep(None))

        async def is_woken() -> bool:
            await _tell(frontiers, partition)
            return woken.done()

        await wait_until(is_woken)
    finally:
        await sleeper.stop()


async def test_a_cluster_goes_on_without_a_primary(tmp_path: Path) -> None:
    """Its entries rest and it is named; the others answer, wake sleepers, agree with processes."""
    async with redis_cluster(tmp_path) as cluster:
        settings = divided_settings(REDIS_CLUSTER=cluster.addresses, CRAWLSTREAM_PARTITIONS=6)
        async with divided(settings) as frontiers:
            assert [len(keys) for keys in await cluster.keys()] == [2, 3, 2]
            assert await _clocks(frontiers) == {*range(6)}
            for partition in (2, 5):
                await _wakes(frontiers, partition)
            # The layout is in the slot of {cs0}, on this node.
            cluster.nodes[1].kill()
            await wait_until(lambda: _without(frontiers, {2, 3}))
            await _wakes(frontiers, 5)
            async with open_frontiers(settings) as started:
                assert {*await check_frontiers(started)} == {2, 3}
                assert await _clocks(started) == {0, 1, 4, 5}
                cluster.nodes[1].start()
                await agree_later(started, [2, 3], asyncio.Event())
                assert await _clocks(started) == {*range(6)}
            await wait_until(lambda: _without(frontiers, set()))
            await _wakes(frontiers, 2)


async def _without(frontiers: Frontiers, missing: set[int]) -> set[int]:
    """The partitions that answer, if they are all but the missing ones."""
    answering = await _clocks(frontiers)
    return answering if answering == {*range(len(frontiers))} - missing else set()


async def test_a_cluster_is_talked_to_through_tls_as_a_user(tmp_path: Path) -> None:
    """User, password and certificate are those of a single Redis; with less none gets in."""
    certificate = str(make_certificate(tmp_path, x509.IPAddress(ip_address("127.0.0.1"))))
    tls = {f"tls_{part}_file": certificate for part in ("cert", "key", "ca_cert")}
    port = free_block(1)
    async with redis_cluster(
        tmp_path / "nodes", 1, tls_port=f"{port}", tls_cluster="yes", tls_auth_clients="no", **tls
    ) as cluster:
        user = ("crawler", "on", f">{PASSWORD}", "~{cs*", "&{cs*", "+@all")
        await cluster.ask(0, "ACL", "SETUSER", *user)
        await cluster.ask(0, "ACL", "SETUSER", "default", "off")
        given: dict[str, object] = {
            "REDIS_CLUSTER": f"127.0.0.1:{port}",
            "CRAWLSTREAM_PARTITIONS": 2,
            "REDIS_USERNAME": "crawler",
            "REDIS_PASSWORD": PASSWORD,
            "REDIS_TLS": "true",
            "CRAWLSTREAM_REDIS_SSL_CAFILE": certificate,
        }
        async with divided(divided_settings(**given)) as frontiers:
            assert await _clocks(frontiers) == {0, 1}
            await _wakes(frontiers, 1)
        for changed, remedy in (
            ({"REDIS_PASSWORD": "wrong"}, "does not accept the user or password"),
            ({"CRAWLSTREAM_REDIS_SSL_CAFILE": None}, "certificate of Redis is not trusted"),
        ):
            async with open_frontiers(divided_settings(**{**given, **changed})) as frontiers:
                with pytest.raises(ConfigError, match=remedy):
                    await check_frontiers(frontiers)


def test_a_key_with_a_password_is_refused_for_a_cluster() -> None:
    """redis-py cannot open it there; the error says what to do."""
    settings: Settings = divided_settings(
        REDIS_CLUSTER="127.0.0.1:7000",
        REDIS_TLS="true",
        CRAWLSTREAM_REDIS_SSL_KEY_PASSWORD="x",
    )
    with pytest.raises(ConfigError, match="KEY_PASSWORD: a Redis Cluster needs"):
        asyncio.run(_open(settings))


async def _open(settings: Settings) -> None:
    async with open_frontiers(settings):
        pass
