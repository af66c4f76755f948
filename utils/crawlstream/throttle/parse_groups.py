"""Parse the groups and the limit of addresses in the rules' node, strictly.

::

    groups:
      hoster: {hits: 5, window: 1, concurrency: 4, members: [example.com, 192.0.2.0/24]}
    addresses: {hits: 20, window: 1, concurrency: 8, except: [198.51.100.0/22]}

A member is a host name, with or without ``*.``: that name and all names below it; or a network.
Other keys are errors, so that a misspelt limit is never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any

from crawlstream.errors import BadTable, InvalidUrl
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule
from crawlstream.model.url import host_name
from crawlstream.model.web.throttle_groups import (
    GROUP_LIMITS,
    MOST_GROUPS,
    MOST_MEMBERS,
    AddressLimits,
    Group,
    Groups,
    Network,
)
from crawlstream.zoo.document import Document, kind_of

_FIELDS = tuple(field for field in RULE_FIELDS if field.name in GROUP_LIMITS)
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_LARGEST = {4: 8, 6: 32}
"""Shortest prefixes of networks, by the version of IP."""
_NAME_IN_WORDS = "1 to 64 of a-z, 0-9, '_', '.' and '-', beginning with a letter or digit"


def groups_of(document: Document, site_of: Callable[[str], str]) -> Groups[ThrottleRule]:
    """Return the groups in a document; ``site_of`` returns the unit with limits of a host."""
    named = document.get("groups", {})
    if not isinstance(named, dict):
        raise BadTable(f"groups is {kind_of(named)}, not a mapping (empty: {{}})")
    groups = {checked_name(name): _group(f"groups: {name}", one) for name, one in named.items()}
    _check_number(groups)
    for name, group in groups.items():
        for member in group.members:
            _check_site(f"groups: {name}", member, site_of(member))
    return Groups(groups, _addresses(document.get("addresses")))


def _check_number(groups: Mapping[str, Group[ThrottleRule]]) -> None:
    if len(groups) > MOST_GROUPS:
        raise BadTable(f"groups: {len(groups)} are too many; at most {MOST_GROUPS} are possible")
    members = sum(len(group.members) + len(group.networks) for group in groups.values())
    if members > MOST_MEMBERS:
        raise BadTable(f"groups: {members} members are too many; at most {MOST_MEMBERS} in all")


def checked_name(name: object) -> str:
    """Return the name of a group, if it may have this one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadTable(f"groups: {kind_of(name)} is not a name: {_NAME_IN_WORDS}")
    return name


def member_of(text: object) -> str:
    """Return the host name that a member covers, with all names below it, or its network."""
    if not isinstance(text, str) or not text:
        raise BadTable(f"{kind_of(text)} is not a host name")
    if network := _network(text):
        return str(network)
    try:
        return host_name(text.removeprefix("*."))
    except InvalidUrl as error:
        raise BadTable(f"not a host name: {error}") from error


def _group(where: str, group: object) -> Group[ThrottleRule]:
    if not isinstance(group, dict):
        raise BadTable(f"{where} is {kind_of(group)}, not a mapping with hits, window and members")
    if unknown := sorted(str(name) for name in group.keys() - {*GROUP_LIMITS, "members"}):
        known = f"{', '.join(GROUP_LIMITS)} and members"
        raise BadTable(f"{where}: a group has no {', '.join(unknown)}; it has {known}")
    members = group.get("members", [])
    if not isinstance(members, list):
        raise BadTable(f"{where}: members is {kind_of(members)}, not a list (empty: [])")
    try:
        hosts = dict.fromkeys(member_of(member) for member in members)
    except BadTable as error:
        raise BadTable(f"{where}: members: {error}") from error
    networks = [network for host in hosts if (network := _network(host))]
    names = tuple(host for host in hosts if not _network(host))
    return Group(rule=_rule(where, group), members=names, networks=tuple(networks))


def _addresses(limits: object) -> AddressLimits[ThrottleRule] | None:
    if limits is None:
        return None
    if not isinstance(limits, dict):
        raise BadTable(f"addresses is {kind_of(limits)}, not a mapping with hits and window")
    if unknown := sorted(str(name) for name in limits.keys() - {*GROUP_LIMITS, "except"}):
        known = f"{', '.join(GROUP_LIMITS)} and except"
        raise BadTable(f"addresses: there is no {', '.join(unknown)}; there are {known}")
    excepted = limits.get("except", [])
    if not isinstance(excepted, list) or len(excepted) > MOST_MEMBERS:
        raise BadTable(f"addresses: except is {kind_of(excepted)}, not a list of networks")
    networks = tuple(network_of(one) for one in excepted)
    return AddressLimits(rule=_rule("addresses", limits), excepted=networks)


def network_of(text: object) -> Network:
    """Return a network, or an address as the network that it is; BadTable."""
    try:
        if isinstance(text, str):
            return ip_network(text, strict=False)
    except ValueError:
        pass
    raise BadTable(f"addresses: except: {kind_of(text)} is not a network like 192.0.2.0/24")


def _rule(where: str, group: Mapping[Any, Any]) -> ThrottleRule:
    values: dict[str, Any] = {}
    for field in _FIELDS:
        value = group.get(field.name, field.default)
        if value is None:
            raise BadTable(f"{where}: {field.name} is missing")
        if not field.accepts(value):
            raise BadTable(f"{where}: {field.name} is {kind_of(value)}, not {field.wanted}")
        values[field.attribute] = field.kind(value)
    if not values["hits"]:
        raise BadTable(f"{where}: hits is 0: put the domains on the blacklist to block them")
    return ThrottleRule(**values, moderated=False)


def _check_site(where: str, member: str, site: str) -> None:
    if site.endswith(f".{member}") or site == member:
        return
    raise BadTable(
        f"{where}: {member} is counted as a part of {site}, so it cannot be in a group without it:"
        f" name {site}, or give {member} a rule of its own under domains"
    )


def _network(text: str) -> Network | None:
    """Return the network in a text; None: it is another one. BadTable: it is too large."""
    if "/" not in text:
        return None
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    if network.prefixlen < _LARGEST[network.version]:
        least = _LARGEST[network.version]
        raise BadTable(f"{text} is too large a network: a prefix of /{least} or longer is possible")
    return network
