"""Rights in Redis: those that are documented suffice, and what is refused ends a process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.boot.startup import until_ready
from crawlstream.errors import ConfigError
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.opening.startup_check import Missing, check_frontiers
from support.frontier.bench import GRACE_MS, open_bench

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
PASSWORD = "PASSWORD"  # noqa: S105  as the document has it


def documented_rights() -> list[str]:
    """The words of the line in the document, behind the name of the user."""
    (line,) = re.findall(r"^ACL SETUSER crawler (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    return str(line).split()


@pytest.fixture
async def users(redis: Redis) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Makes the user ``crawler`` of a list of rights; it is gone afterwards."""

    async def make(*rights: str) -> None:
        client: Any = redis
        await client.execute_command("ACL", "SETUSER", "crawler", "reset", *rights)

    yield make
    await redis.acl_deluser("crawler")


@pytest.fixture
def settings_of(
    redis_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Settings]:
    """Settings of a process that is the user ``crawler``, with changes."""

    def make(**changes: str) -> Settings:
        given = {
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis_server.port),
            "CRAWLSTREAM_REDIS_USERNAME": "crawler",
            "REDIS_PASSWORD": PASSWORD,
            **changes,
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return load_settings()

    return make


async def start(settings: Settings, missing_are: Missing = "new") -> None:
    """First commands of every process in Redis."""
    async with open_frontiers(settings) as frontiers, asyncio.timeout(20):
        await until_ready("redis", lambda: check_frontiers(frontiers, missing_are))


@pytest.mark.usefixtures("redis")
async def test_the_documented_rights_suffice(
    users: Callable[..., Awaitable[None]],
    settings_of: Callable[..., Settings],
    redis_server: RunningServer,
) -> None:
    """A user of the documented line starts, feeds, leases, settles and ends a crawl."""
    await users(*documented_rights())
    await start(settings_of())
    async with Redis(
        host="127.0.0.1", port=redis_server.port, username="crawler", password=PASSWORD
    ) as redis:
        bench = await open_bench(redis)
        await bench.feed.seeds("a/1", "b/1")
        woken: Any = redis.pubsub()
        await woken.subscribe(bench.frontier.scripts.keys.wake_channel("w1"))
        assert sorted(await bench.worker.crawl_all()) == ["a/1", "b/1"]
        await bench.advance(GRACE_MS + 1)
        await bench.tend()
        assert "crawl_finished" in await bench.events()
        await woken.aclose()


@pytest.mark.usefixtures("redis")
async def test_the_documented_rights_suffice_for_partitions(
    users: Callable[..., Awaitable[None]], settings_of: Callable[..., Settings]
) -> None:
    """Keys of all partitions of a namespace are covered, and those of others are not."""
    await users(*documented_rights())
    await start(settings_of(CRAWLSTREAM_PARTITIONS="4"))
    with pytest.raises(ConfigError, match=r"Redis refuses a right.*docs/security\.md"):
        await start(settings_of(CRAWLSTREAM_PARTITIONS="4", CRAWLSTREAM_NAMESPACE="other"))


@pytest.mark.parametrize(
    ("rights", "changes", "sentence"),
    [
        ((), {"REDIS_PASSWORD": "wrong"}, "REDIS_PASSWORD.*invalid username-password pair"),
        ((), {"CRAWLSTREAM_REDIS_USERNAME": "nobody"}, "CRAWLSTREAM_REDIS_USERNAME"),
        (("-info",), {}, r"docs/security\.md.*'info' command"),
        (("-evalsha",), {}, r"docs/security\.md.*'evalsha' command"),
        (("-hget",), {}, r"in a script.*docs/security\.md"),
        ((), {"CRAWLSTREAM_NAMESPACE": "other"}, r"docs/security\.md"),
        ((), {"REDIS_DB": "99"}, "REDIS_DB.*DB index is out of range"),
    ],
)
@pytest.mark.parametrize("partitions", ["1", "3"])
async def test_a_refusal_ends_the_start(
    users: Callable[..., Awaitable[None]],
    settings_of: Callable[..., Settings],
    *,
    rights: tuple[str, ...],
    changes: dict[str, str],
    sentence: str,
    partitions: str,
) -> None:
    """A single sentence says what Redis has refused and what to do; nothing is waited for."""
    await users(*documented_rights(), *rights)
    with pytest.raises(ConfigError, match=sentence):
        await start(settings_of(CRAWLSTREAM_PARTITIONS=partitions, **changes))


@pytest.fixture
async def demoted(redis: Redis) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Makes Redis follow a primary which is not there; afterwards it is one itself."""

    async def demote() -> None:
        await redis.config_set("replica-serve-stale-data", "no")
        await redis.replicaof("127.0.0.1", "1")

    yield demote
    await redis.replicaof("NO", "ONE")
    await redis.config_set("replica-serve-stale-data", "yes")


async def test_a_replica_ends_the_start_or_is_waited_for(
    redis: Redis,
    demoted: Callable[[], Awaitable[None]],
    settings_of: Callable[..., Settings],
    users: Callable[..., Awaitable[None]],
) -> None:
    """A whole frontier on a replica is a wrong address; one that only lacks data is promoted."""
    await users(*documented_rights())
    await start(settings_of(CRAWLSTREAM_PARTITIONS="3"))
    await demoted()
    with pytest.raises(ConfigError, match=r"replica.*address of its primary"):
        await start(settings_of(CRAWLSTREAM_PARTITIONS="1", CRAWLSTREAM_NAMESPACE="cs9"))

    settings = settings_of(CRAWLSTREAM_PARTITIONS="3", CRAWLSTREAM_NAMESPACE="cs")
    starting = asyncio.create_task(start(settings, "away"))
    done, _ = await asyncio.wait({starting}, timeout=0.5)
    assert not done
    await redis.replicaof("NO", "ONE")
    await starting
