"""What Redis' client raises, in our words."""

from __future__ import annotations

import pytest
from redis.asyncio import connection

from crawlstream.errors import RedisUnavailable
from crawlstream.frontier.scripts import our_errors

CLOSED = "RuntimeError('unable to perform operation on <TCPTransport>; the handler is closed')"


@pytest.mark.parametrize("raised", [CLOSED, "AttributeError('writelines')"])
def test_a_connection_that_went_while_it_was_written_to_is_a_redis_that_is_away(
    raised: str,
) -> None:
    """What Python and uvloop say of it redis-py lets pass: a worker must not end of it."""
    write = compile(f"raise {raised}", connection.__file__, "exec")
    with pytest.raises(RedisUnavailable, match="closed the connection"), our_errors():
        exec(write)  # noqa: S102  the file that raises is what it is about


@pytest.mark.parametrize("kind", [RuntimeError, AttributeError])
def test_the_same_errors_from_elsewhere_pass(kind: type[Exception]) -> None:
    """They are defects of ours."""
    with pytest.raises(kind, match="something else"), our_errors():
        raise kind("something else")
