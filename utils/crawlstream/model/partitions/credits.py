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
    ready: int
    """Links that could be let in, or refused, at once."""

    @property
    def account(self) -> tuple[int, int, int, int]:
        """What the home hears of it."""
        return self[:4]

    @property
    def waiting(self) -> int:
        """What is not done yet."""
        return self.wanted + self.ready


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


NOTHING = Grant(0, 0, 0, 0, 0, 0, 0, ())
"""A grant that changes nothing; what is ready goes on with it."""


class NoGrant(NamedTuple):
    """Why the home has nothing to say."""

    home_epoch: int
    why: Literal["COUNT", "OVER", "PENDING"]
    """All partitions are to be counted first, the generation is over, or it is not known yet."""
