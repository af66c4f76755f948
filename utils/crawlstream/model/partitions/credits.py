"""Credits of a page limit, as partitions and homes tell of them; see docs/partitions.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Draw(NamedTuple):
    """The account of credits that a partition has, and what it asks for."""

    redis_epoch: int
    """Of the partition."""
    number: int
    """One more each time that credits are given back."""
    drawn: int
    """In total, less what was given back."""
    unspent: int
    limit: int
    """That what waits is under."""
    wanted: int
    """How many more are waited for."""


class Grant(NamedTuple):
    """What the home answers to an account."""

    home_epoch: int
    redis_epoch: int
    number: int
    total: int
    """How many credits the partition may have drawn."""
    rank: int
    """Each that it has not spent is among so many first ones of the crawl."""
    elsewhere: int
    """Credits that other partitions have spent."""
    reached: int
    """The limit is reached; 0: it is not, as far as the home knows."""
    holders: Sequence[int]
    """Partitions with unspent credits, where not all could be granted."""


class NoGrant(NamedTuple):
    """Why the home has nothing to say."""

    home_epoch: int
    why: Literal["COUNT", "OVER", "PENDING"]
    """All partitions are to be counted first, the generation is over, or it is not known yet."""
