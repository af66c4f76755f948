"""Redis' refusals, in its own words: some pass with time, some need an operator."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawlstream.boot.redis.connection import SlotMovedError
from crawlstream.boot.redis.refusals import refuse
from crawlstream.boot.startup import until_ready
from crawlstream.errors import ConfigError, CrawlstreamError, KafkaUnavailable, NoFrontier
from crawlstream_frontier.scripts import our_errors


def as_raised(answer: str) -> Exception:
    """Error of redis-py for an answer of Redis."""
    parser: Any = BaseParser
    error = parser.parse_error(answer)
    assert isinstance(error, RedisError)
    return error


def in_our_words(error: Exception) -> Exception:
    """Error of the frontier for it."""
    try:
        with our_errors():
            raise error
    except (CrawlstreamError, RedisError) as ours:
        return ours


@pytest.mark.parametrize(
    "error",
    [
        *map(
            as_raised,
            (
                "LOADING Redis is loading the dataset in memory",
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                "CLUSTERDOWN The cluster is down",
                "TRYAGAIN Multiple keys request during rehashing of slot",
                "BUSY Redis is busy running a script.",
                "MISCONF Redis is configured to save RDB snapshots, but cannot.",
                "NOREPLICAS Not enough good replicas to write.",
                "ERR max number of clients reached",
                "OOM command not allowed when used memory > 'maxmemory'.",
            ),
        ),
        RedisConnectionError("Connection refused"),
        RedisTimeoutError("Timeout reading"),
        SlotMovedError("slot 1 is being moved"),
        NoFrontier(),
        KafkaUnavailable(),
        ConnectionRefusedError(),
    ],
    ids=repr,
)
def test_what_time_heals_is_no_refusal(error: Exception) -> None:
    """It starts, loads, fails over or is full: the process goes on waiting."""
    refuse(error)
    refuse(in_our_words(error) if isinstance(error, RedisError) else error)


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        ("WRONGPASS invalid username-password pair or user is disabled.", "REDIS_PASSWORD"),
        ("NOAUTH Authentication required.", "REDIS_PASSWORD"),
        ("ERR wrong number of arguments for 'auth' command", "REDIS_PASSWORD"),
        ("NOPERM User x has no permissions to run the 'info' command", r"docs/security\.md"),
        ("ERR ACL failure in script: User x has no permissions", r"docs/security\.md"),
        ("ERR The user executing the script can't run this command", r"docs/security\.md"),
        ("READONLY You can't write against a read only replica.", "address of its primary"),
        ("ERR DB index is out of range", "REDIS_DB"),
        ("MOVED 1 127.0.0.1:7001", "CRAWLSTREAM_REDIS_CLUSTER"),
        ("ERR unknown command 'XAUTOCLAIM'", r"Redis 7\.0"),
        ("WRONGTYPE Operation against a key of the wrong kind", "namespace"),
    ],
)
async def test_a_refusal_is_one_sentence(answer: str, remedy: str) -> None:
    """The refusal and its remedy are named; waiting ends at the first one."""
    error = in_our_words(as_raised(answer))
    tried = []

    async def attempt() -> None:
        tried.append(1)
        raise error

    with pytest.raises(ConfigError, match=remedy) as refused:
        await until_ready("redis", attempt)
    assert len(tried) == 1
    assert "\n" not in str(refused.value)


def test_a_certificate_that_is_not_trusted_is_a_refusal() -> None:
    """redis-py calls it a broken connection; the reason is behind that."""
    error = RedisConnectionError("Error 1 connecting to redis:6379")
    error.__context__ = ssl.SSLCertVerificationError("self-signed certificate")
    with pytest.raises(ConfigError, match=r"SSL_CAFILE.*self-signed"):
        refuse(in_our_words(error))
