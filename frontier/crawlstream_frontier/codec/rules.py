"""The throttle table as the frontier applies and stores it, in the shapes of ``lua/rules.lua``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import msgpack  # type: ignore[import-untyped]

from crawlstream.errors import BadTable
from crawlstream.model.inspection import GateReport
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import (
    ADDRESS_GATE,
    GATE,
    AddressLimits,
    Group,
    Groups,
)
from crawlstream_frontier.codec.values import pack


def pack_table(table: ThrottleTable, *, adopt: bool, partitions: int = 1) -> bytes:
    """Pack the throttle table as the frontier applies it, and as it was written.

    Each of several ``partitions`` gets its share of the limits that domains have in common.
    """
    parted = table.parted()
    rules = {domain: rule.applied() for domain, rule in table.rules.items() if _is_name(domain)}
    blocked = {name for name in parted if table.block_of(name)} | table.blacklist
    for domain in filter(_is_name, blocked):
        rules[domain] = replace(table.rule_for(domain), hits=0).applied()
    rules |= {gate: share_of(rule, partitions) for gate, rule in table.groups.gates().items()}
    flat = [part for pair in rules.items() for part in pair]
    members = [part for pair in table.groups.gate_of_members.items() for part in pair]
    return pack(
        [
            str(table.czxid),
            str(table.mzxid),
            adopt,
            table.default.applied(),
            flat,
            pack(_table_fields(table)),
            bool(parted),
            members,
            bool(table.groups),
            table.groups.places,
        ]
    )


def check_shares(table: ThrottleTable, partitions: int) -> None:
    """Raise BadTable if a group allows fewer concurrent requests than there are partitions."""
    for gate, rule in table.groups.gates().items():
        if rule.concurrency < partitions:
            where = "addresses" if gate == ADDRESS_GATE else f"groups: {gate.removeprefix(GATE)}"
            raise BadTable(
                f"{where}: concurrency is {rule.concurrency}, but each of the"
                f" {partitions} partitions needs 1: set it to {partitions} or more"
            )


def share_of(rule: ThrottleRule, partitions: int) -> str:
    """Return the part of a group's rule that applies in each partition, as it is applied."""
    hits, window_s = rule.hits // partitions, rule.window_s
    if not hits:
        hits, window_s = 1, window_s * partitions / rule.hits
    concurrency = rule.concurrency // partitions
    return replace(rule, hits=hits, window_s=window_s, concurrency=concurrency).applied()


def _is_name(domain: str) -> bool:
    """Return whether a domain may have this name; others are special fields of the frontier."""
    return domain not in {"", "#"}


def _table_fields(table: ThrottleTable) -> list[object]:
    rules = {domain: rule.values() for domain, rule in table.rules.items()}
    fields = [table.default.values(), rules, sorted(table.blacklist), table.czxid, table.mzxid]
    if not table.groups:
        return fields
    groups = [
        [name, group.rule.values(), group.members, [*map(str, group.networks)]]
        for name, group in table.groups.by_name.items()
    ]
    limits = table.groups.addresses
    addresses = limits and [limits.rule.values(), [*map(str, limits.excepted)]]
    return [*fields, groups, addresses]


def gate_of(name: bytes, rule: bytes, *numbers: int) -> GateReport:
    """Return a gate as operations report it."""
    unreported, under_way, next_ms, waiting = map(int, numbers)
    return GateReport(
        name=name.decode(),
        rule=ThrottleRule.of_applied(rule.decode()) if rule else None,
        unreported=unreported,
        under_way=under_way,
        next_ms=next_ms,
        waiting=waiting,
    )


def unpack_table(blob: bytes) -> ThrottleTable:
    """Return the table that ``pack_table`` wrote in addition to the rules."""
    default, rules, blacklist, czxid, mzxid, *more = msgpack.unpackb(blob, raw=False)
    return ThrottleTable(
        default=ThrottleRule.of_values(default),
        rules={domain: ThrottleRule.of_values(values) for domain, values in rules.items()},
        blacklist=frozenset(blacklist),
        groups=_groups(*more),
        czxid=czxid,
        mzxid=mzxid,
    )


def _groups(groups: Sequence[Any] = (), addresses: Any = None) -> Groups[ThrottleRule]:
    return Groups(
        {
            name: Group(
                rule=ThrottleRule.of_values(values),
                members=tuple(members),
                networks=tuple(map(ip_network, networks)),
            )
            for name, values, members, networks in groups
        },
        addresses and _addresses(*addresses),
    )


def _addresses(values: Sequence[Any], excepted: Sequence[str]) -> AddressLimits[ThrottleRule]:
    rule = ThrottleRule.of_values(values)
    return AddressLimits(rule=rule, excepted=tuple(map(ip_network, excepted)))
