"""Credits of a page limit, as partitions and coordinators exchange them, and their packing.

See docs/partitions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from crawlstream.keys import FrontierKeys
from crawlstream.model.partitions.messages import ContextKey
from crawlstream_frontier.codec.values import pack


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


def pack_count(context: ContextKey, coordinator_epoch: int, *, give_back: bool) -> bytes:
    """Pack the request for the account of a partition."""
    return pack([*_name(context), coordinator_epoch, give_back])


def unpack_draw(packed: Sequence[int]) -> Draw:
    """Return the account that a partition answers with."""
    return Draw(*packed)


def pack_draws(
    context: ContextKey, draws: Mapping[int, Draw], asker: int, counted_in: int
) -> bytes:
    """Pack the accounts of partitions for the coordinator; ``asker`` needs credits."""
    in_order = sorted(draws, key=lambda partition: (partition == asker, partition))
    accounts = [[partition, *draws[partition].account] for partition in in_order]
    asked = draws[asker]
    return pack([*_name(context), counted_in, accounts, asker, asked.limit, asked.wanted])


def unpack_grant(packed: Sequence[Any]) -> Grant | NoGrant:
    """Return the answer of the coordinator."""
    kind, coordinator_epoch, *grant = packed
    if kind != b"OK":
        return NoGrant(coordinator_epoch, kind.decode())
    return Grant(coordinator_epoch, *grant[0])


def pack_grant(context: ContextKey, grant: Grant, most: int) -> bytes:
    """Pack a grant for the partition that receives it."""
    coordinator_epoch, *rest, _ = grant
    return pack([*_name(context), coordinator_epoch, rest, most])


def _name(context: ContextKey) -> tuple[str, int]:
    return FrontierKeys.crawl_field(context.crawl), context.generation
