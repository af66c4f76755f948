"""What Redis' client raises, in our words."""

from __future__ import annotations

import pytest

from crawlstream.errors import RedisUnavailable
from crawlstream.frontier.scripts import our_errors


def test_a_connection_that_went_while_it_was_written_to_is_a_redis_that_is_away() -> None:
    """Uvloop says so by an error that redis-py lets pass: the worker must not end of it."""
    said = "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
    with pytest.raises(RedisUnavailable, match="closed the connection"), our_errors():
        raise RuntimeError(said)


def test_other_errors_of_that_kind_pass() -> None:
    """They are defects."""
    with pytest.raises(RuntimeError, match="something else"), our_errors():
        raise RuntimeError("something else")
