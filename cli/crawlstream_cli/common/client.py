"""The cluster's Redis for commands; its errors name the remedy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from redis.exceptions import AuthenticationError, RedisError

from crawlstream.boot.settings import Settings
from crawlstream.called import COMMAND
from crawlstream.errors import NoFrontier, RedisUnavailable
from crawlstream_frontier.opening.identity import check_cluster
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.shelves.shelf import Shelf


@asynccontextmanager
async def cluster_frontier(
    settings: Settings, shelf: Shelf | None = None
) -> AsyncIterator[Frontiers]:
    """Open the cluster's frontier; RedisUnavailable names the remedy.

    ConfigError: it belongs to another cluster than the settings name.
    """
    async with open_frontiers(settings, shelf=shelf) as frontiers:
        with explained(settings):
            await check_cluster(settings, frontiers)
            yield frontiers


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Say what to do where Redis does not answer: NoFrontier or RedisUnavailable."""
    at = ",".join(f"{host}:{port}" for host, port in settings.redis_servers)
    try:
        yield
    except NoFrontier as error:
        raise NoFrontier(
            f"Redis at {at} stores no crawls: it is new, or was emptied. A running kafka-monitor"
            f" restores the unfinished crawls: see `{COMMAND} status`"
        ) from error
    except (RedisError, RedisUnavailable) as error:
        raise RedisUnavailable(_why(error, at)) from error


def _why(error: Exception, at: str) -> str:
    if isinstance(error.__cause__ or error, AuthenticationError):
        return (
            f"Redis at {at} rejects the credentials: set REDIS_PASSWORD, and REDIS_USERNAME if"
            " Redis uses ACLs"
        )
    return (
        f"Redis does not answer at {at}: start a cluster with `{COMMAND} up -d`, or set REDIS_HOST"
    )
