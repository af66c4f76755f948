"""Errors of Redis that only an operator can fix, as sentences with their remedy."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence

from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawlstream.boot.redis.connection import SlotMovedError
from crawlstream.errors import PASSING_REFUSALS, ConfigError

_HEAL = (
    *(RedisConnectionError, RedisTimeoutError, ClusterDownError, TryAgainError, SlotMovedError),
    OutOfMemoryError,
)
"""Errors that pass, except for the refusals below: it starts, loads, fails over, is full."""

_RIGHTS = "give its user the rights in docs/security.md (Rights in Redis)"
_REFUSALS: Sequence[tuple[type[Exception] | tuple[type[Exception], ...], str, str]] = (
    (
        (AuthenticationError, AuthenticationWrongNumberOfArgsError),
        "",
        (
            "Redis does not accept the user or password: set REDIS_PASSWORD, and"
            " CRAWLSTREAM_REDIS_USERNAME for a user of its access list"
        ),
    ),
    ((NoPermissionError, AuthorizationError), "", f"Redis refuses a right: {_RIGHTS}"),
    (RedisError, "ACL failure in script", f"Redis refuses a right in a script: {_RIGHTS}"),
    (RedisError, "The user executing the script", f"Redis refuses a right in a script: {_RIGHTS}"),
    (
        ReadOnlyError,
        "",
        "Redis is a replica, which accepts no writes: configure the address of its primary",
    ),
    (
        ssl.SSLCertVerificationError,
        "",
        (
            "the certificate of Redis is not trusted: set CRAWLSTREAM_REDIS_SSL_CAFILE to its"
            " authority, and connect by a name that it bears"
        ),
    ),
    (
        MovedError,
        "",
        "Redis is a node of a Redis Cluster: set CRAWLSTREAM_REDIS_CLUSTER to its nodes",
    ),
    (
        RedisError,
        "DB index is out of range",
        "REDIS_DB: Redis has no database of this number: use a smaller one, such as 0",
    ),
)
"""Kind of error, words in it, and what to do."""
_OTHER = "Redis rejects what crawlstream needs: use Redis 7.0 or later, with a namespace of its own"


def refuse(error: BaseException) -> None:
    """Raise ConfigError if Redis refuses commands, so that waiting does not help; it quotes Redis.

    An error of crawlstream is judged by the redis-py error that caused it.
    """
    for cause in _causes(error):
        if remedy := _remedy(cause):
            raise ConfigError(f"{remedy} ({cause})") from error
        if isinstance(cause, RedisError) and not isinstance(cause, RedisConnectionError):
            return


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _remedy(error: BaseException) -> str:
    """Return the remedy; "" if the error passes by itself, or does not come from Redis."""
    for kind, words, remedy in _REFUSALS:
        if isinstance(error, kind) and words in str(error):
            return remedy
    heals = isinstance(error, _HEAL) or str(error).startswith(PASSING_REFUSALS)
    return _OTHER if isinstance(error, RedisError) and not heals else ""
