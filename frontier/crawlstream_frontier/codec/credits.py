"""Credits of a page limit, as their scripts take and answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.keys import FrontierKeys
from crawlstream.model.partitions.credits import Draw, Grant, NoGrant
from crawlstream.model.partitions.messages import ContextKey
from crawlstream_frontier.codec.values import pack


def pack_count(context: ContextKey, home_epoch: int, *, give_back: bool) -> bytes:
    """What a partition is asked."""
    return pack([*_name(context), home_epoch, give_back])


def unpack_draw(packed: Sequence[int]) -> Draw:
    """What it answers."""
    return Draw(*packed)


def pack_draws(
    context: ContextKey, draws: Mapping[int, Draw], asker: int, counted_in: int
) -> bytes:
    """Accounts of partitions, for the home; one of them asks."""
    in_order = sorted(draws, key=lambda partition: (partition == asker, partition))
    accounts = [[partition, *draws[partition].account] for partition in in_order]
    asked = draws[asker]
    return pack([*_name(context), counted_in, accounts, asker, asked.limit, asked.wanted])


def unpack_grant(packed: Sequence[Any]) -> Grant | NoGrant:
    """What the home answers."""
    kind, home_epoch, *grant = packed
    if kind != b"OK":
        return NoGrant(home_epoch, kind.decode())
    return Grant(home_epoch, *grant[0])


def pack_grant(context: ContextKey, grant: Grant, most: int) -> bytes:
    """What a partition hears of it."""
    home_epoch, *rest, _ = grant
    return pack([*_name(context), home_epoch, rest, most])


def _name(context: ContextKey) -> tuple[str, int]:
    return FrontierKeys.crawl_field(context.crawl), context.generation
