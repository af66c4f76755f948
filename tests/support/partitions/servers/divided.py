"""Frontiers of three partitions: in one Redis, on three of them, on a Redis Cluster of three."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from crawlstream.boot.settings import Settings
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.maintenance import FrontierLimits
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.opening.startup_check import check_frontiers
from crawlstream_frontier.partitions.frontiers import Frontiers
from support import servers

THREE = 3


@contextmanager
def three_redis(folder: Path) -> Iterator[Sequence[RunningServer]]:
    """Run three Redis; a test that kills one starts it again."""
    with ExitStack() as stack:
        folders = [folder / f"redis-{number}" for number in range(THREE)]
        for each in folders:
            each.mkdir()
        yield [stack.enter_context(servers.redis(each)) for each in folders]


def divided_settings(**given: object) -> Settings:
    """Settings of a frontier of several partitions."""
    return Settings.model_validate(given)


def addresses(running: Sequence[RunningServer]) -> str:
    """Servers as REDIS_HOSTS lists them."""
    return ",".join(f"127.0.0.1:{server.port}" for server in running)


@asynccontextmanager
async def divided(
    settings: Settings, limits: FrontierLimits | None = None
) -> AsyncIterator[Frontiers]:
    """The partitions of a frontier that is created if it is not there."""
    async with open_frontiers(settings, limits) as frontiers:
        await check_frontiers(frontiers)
        yield frontiers
