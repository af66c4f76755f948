"""The throttle table as the frontier applies and stores it, in the shapes of ``lua/rules.lua``."""

from __future__ import annotations

from dataclasses import replace

import msgpack  # type: ignore[import-untyped]

from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_frontier.codec.values import pack


def pack_table(table: ThrottleTable, *, adopt: bool) -> bytes:
    """Pack the throttle table as the frontier applies it, and as it was written."""
    parted = table.parted()
    rules = {domain: rule.applied() for domain, rule in table.rules.items() if _is_name(domain)}
    blocked = {name for name in parted if table.block_of(name)} | table.blacklist
    for domain in filter(_is_name, blocked):
        rules[domain] = replace(table.rule_for(domain), hits=0).applied()
    flat = [part for pair in rules.items() for part in pair]
    return pack(
        [
            str(table.czxid),
            str(table.mzxid),
            adopt,
            table.default.applied(),
            flat,
            pack(_table_fields(table)),
            bool(parted),
        ]
    )


def _is_name(domain: str) -> bool:
    """Return whether a domain may have this name; others are special fields of the frontier."""
    return domain not in {"", "#"}


def _table_fields(table: ThrottleTable) -> list[object]:
    rules = {domain: rule.values() for domain, rule in table.rules.items()}
    return [table.default.values(), rules, sorted(table.blacklist), table.czxid, table.mzxid]


def unpack_table(blob: bytes) -> ThrottleTable:
    """Return the table that ``pack_table`` wrote in addition to the rules."""
    default, rules, blacklist, czxid, mzxid = msgpack.unpackb(blob, raw=False)
    return ThrottleTable(
        default=ThrottleRule.of_values(default),
        rules={domain: ThrottleRule.of_values(values) for domain, values in rules.items()},
        blacklist=frozenset(blacklist),
        czxid=czxid,
        mzxid=mzxid,
    )
