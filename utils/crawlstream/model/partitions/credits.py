"""Credits of a page limit, as partitions and coordinators exchange them.

See docs/partitions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Draw(NamedTuple):
    """Account of a partition's credits, and its request for more."""

    redis_epoch: int
    """Redis epoch of the partition."""
    number: int
    """Increases by one each time credits are returned."""
    drawn: int
    """Total credits drawn, minus those returned."""
    unspent: int
    limit: int
    """Page limit that the waiting links are subject to."""
    wanted: int
    """Number of further credits that links wait for."""
    ready: int
    """Number of links that can be admitted or refused at once."""

    @property
    def account(self) -> tuple[int, int, int, int]:
        """Return the part that is sent to the coordinator."""
        return self[:4]

    @property
    def waiting(self) -> int:
        """Return the number of links that are not processed yet."""
        return self.wanted + self.ready


class Grant(NamedTuple):
    """Answer of the coordinator to an account."""

    coordinator_epoch: int
    redis_epoch: int
    number: int
    total: int
    """Credits that the partition may have drawn in total."""
    rank: int
    """Each unspent credit of the partition is among the first ``rank`` credits of the crawl."""
    elsewhere: int
    """Credits that other partitions have spent."""
    reached: int
    """Limit that is reached; 0: none is reached, as far as the coordinator knows."""
    holders: Sequence[int]
    """Partitions with unspent credits, if not all wanted credits could be granted."""


NOTHING = Grant(0, 0, 0, 0, 0, 0, 0, ())
"""Grant that changes nothing; with it, ready links are processed."""


class NoGrant(NamedTuple):
    """Answer of a coordinator that grants nothing, with the reason."""

    coordinator_epoch: int
    why: Literal["COUNT", "OVER", "PENDING"]
    """``COUNT``: all partitions must be counted first. ``OVER``: the generation has ended.
    ``PENDING``: the generation is not known yet."""
