"""The cluster's Redis, as commands ask it: what goes wrong is told with what to do about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError

from crawlstream.boot.clients import redis_client
from crawlstream.boot.settings import Settings
from crawlstream.errors import NoFrontier, RedisUnavailable


@asynccontextmanager
async def cluster_redis(settings: Settings) -> AsyncIterator[Redis]:
    """A client of the cluster's Redis; RedisUnavailable tells a person what to do."""
    redis = redis_client(settings)
    at = f"{settings.redis_host}:{settings.redis_port}"
    try:
        yield redis
    except NoFrontier as error:
        raise NoFrontier(
            f"Redis at {at} stores no crawls: it is new, or was emptied. A running kafka-monitor"
            " restores the unfinished crawls: see `./crawlstream status`"
        ) from error
    except (RedisError, RedisUnavailable) as error:
        raise RedisUnavailable(_why(error, at)) from error
    finally:
        await redis.aclose()


def _why(error: Exception, at: str) -> str:
    if isinstance(error.__cause__ or error, AuthenticationError):
        return (
            f"Redis at {at} rejects the credentials: set REDIS_PASSWORD, and REDIS_USERNAME if"
            " Redis uses ACLs"
        )
    return (
        f"Redis does not answer at {at}: start a cluster with `./crawlstream up -d`, or set"
        " REDIS_HOST"
    )
