"""Change groups and the limit of addresses in the rules' node; ``ThrottleEditor`` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.errors import BadTable
from crawlstream.throttle.parse_groups import checked_name, member_of
from crawlstream.zoo.document import Document

GROUPS, MEMBERS, ADDRESSES = "groups", "members", "addresses"


def add(name: str, members: Sequence[str], limits: Mapping[str, float], document: Document) -> None:
    """Create a group, or change its limits; add members that it does not have yet."""
    groups = _groups(document)
    before = groups.get(checked_name(name))
    group = dict(before) if isinstance(before, dict) else {}
    group |= limits
    known = _members(group)
    covered = {member_of(member) for member in known}
    added = {member_of(member): member for member in reversed(members)}
    group[MEMBERS] = [*known, *(added[one] for one in reversed(added) if one not in covered)]
    groups[name] = group


def remove(name: str, members: Sequence[str], document: Document) -> None:
    """Remove members from a group; without any, the whole group."""
    groups = _groups(document)
    if name not in groups:
        raise BadTable(f"there is no group {name}")
    if not members:
        del groups[name]
        return
    group = dict(groups[name])
    gone = {member_of(member) for member in members}
    known = _members(group)
    if missing := gone - {member_of(member) for member in known}:
        raise BadTable(f"the group {name} has no member {', '.join(sorted(missing))}")
    group[MEMBERS] = [member for member in known if member_of(member) not in gone]
    groups[name] = group


def limit_addresses(limits: Mapping[str, object], document: Document) -> None:
    """Set the limits of each address that are given."""
    before = document.get(ADDRESSES)
    document[ADDRESSES] = {**(before if isinstance(before, dict) else {}), **limits}


def free_addresses(document: Document) -> None:
    """Remove the limit of addresses."""
    document.pop(ADDRESSES, None)


def _groups(document: Document) -> dict[Any, Any]:
    if not isinstance(document.get(GROUPS), dict):
        document[GROUPS] = {}
    groups: dict[Any, Any] = document[GROUPS]
    return groups


def _members(group: Mapping[Any, Any]) -> Sequence[str]:
    members = group.get(MEMBERS)
    return members if isinstance(members, list) else []
