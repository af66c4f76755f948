"""Credits of a page limit, as arguments and answers of their scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.keys import FrontierKeys
from crawlstream.model.partitions.credits import Draw, Grant, NoGrant
from crawlstream.model.partitions.messages import ContextKey
from crawlstream_frontier.codec.values import pack


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
