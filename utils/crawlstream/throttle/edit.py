"""Change the rules: read, change, and write back unless another client has changed them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from crawlstream.errors import BadTable, InvalidUrl
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule, ThrottleTable
from crawlstream.model.url import fold_host, host_name
from crawlstream.throttle import edit_groups
from crawlstream.throttle.parse import node_of
from crawlstream.zoo.document import Document
from crawlstream.zoo.node import change_node, read_node

DEFAULT = "default"
"""Name of the rule for all domains without a rule of their own."""


class ThrottleEditor:
    """Edits the node by compare-and-set on its version, keeping unknown keys.

    Each method connects, works and disconnects within 5 s, and returns the resulting table. It
    raises ZooKeeperUnavailable (the edit may have been applied; repeating it is harmless), Conflict
    (other clients kept writing), or BadTable (the node is unreadable and therefore not overwritten,
    the new value is invalid, or the rules exceed 1 MiB).
    """

    def __init__(self, hosts: Sequence[str], path: str, *, default: ThrottleRule) -> None:
        self._hosts = hosts
        self._node = node_of(path, default)
        self._default = default

    async def read(self) -> ThrottleTable:
        """Return the current rules in ZooKeeper."""
        return await asyncio.to_thread(read_node, self._hosts, self._node)

    async def seed(self) -> ThrottleTable:
        """Write the default rule into the node if it has none; create the node if necessary.

        A node that was emptied is not changed: its rules are lost, but may still be restored.
        """
        return await self._change(self._seed)

    async def set_rule(self, domain: str, **fields: float | None) -> ThrottleTable:
        """Set the rule of a domain, or of ``"default"``; fields have their names in the node.

        A field that is missing or None is not changed; a new rule of a domain starts with the
        required fields of the default rule.
        """
        if unknown := fields.keys() - {field.name for field in RULE_FIELDS}:
            raise TypeError(f"a throttle rule has no {', '.join(sorted(unknown))}")
        given = {name: _plain(value) for name, value in fields.items() if value is not None}
        if domain == DEFAULT:
            return await self._change(partial(self._set_default, given))
        return await self._change(partial(self._set_rule, _checked(domain), given))

    async def remove_rule(self, domain: str) -> ThrottleTable:
        """Remove the rule of a domain, so that the default rule applies."""
        if domain == DEFAULT:
            raise BadTable("the default rule cannot be removed, only changed")
        return await self._change(partial(_remove_rule, fold_host(domain)))

    async def block(self, domain: str) -> ThrottleTable:
        """Put a domain on the blacklist."""
        return await self._change(partial(_block, _checked(domain)))

    async def unblock(self, domain: str) -> ThrottleTable:
        """Remove a domain from the blacklist."""
        return await self._change(partial(_unblock, fold_host(domain)))

    async def add_to_group(
        self, name: str, members: Sequence[str] = (), **limits: float | None
    ) -> ThrottleTable:
        """Create a group, or change it: add members, and set those limits that are not None."""
        given = {key: _plain(value) for key, value in limits.items() if value is not None}
        return await self._change(partial(edit_groups.add, name, members, given))

    async def remove_from_group(self, name: str, members: Sequence[str] = ()) -> ThrottleTable:
        """Remove members from a group; without any, the whole group."""
        return await self._change(partial(edit_groups.remove, name, members))

    async def limit_addresses(
        self, excepted: Sequence[str] | None = None, **limits: float | None
    ) -> ThrottleTable:
        """Set those limits of each address that are not None, and the networks without one."""
        given: dict[str, object] = {
            key: _plain(value) for key, value in limits.items() if value is not None
        }
        if excepted is not None:
            given["except"] = list(excepted)
        return await self._change(partial(edit_groups.limit_addresses, given))

    async def free_addresses(self) -> ThrottleTable:
        """Remove the limit of addresses."""
        return await self._change(edit_groups.free_addresses)

    async def _change(self, edit: Callable[[Document], None]) -> ThrottleTable:
        return await asyncio.to_thread(
            change_node,
            self._hosts,
            self._node,
            edit,
            fresh=lambda: {DEFAULT: _fields_of(self._default), "domains": {}, "blacklist": []},
        )

    def _seed(self, document: Document) -> None:
        if DEFAULT not in document:
            rest = dict(document)
            document.clear()
            document.update({DEFAULT: _fields_of(self._default), **rest})

    def _set_default(self, fields: Document, document: Document) -> None:
        self._seed(document)
        document[DEFAULT] = {**_as_mapping(document, DEFAULT), **fields}

    def _set_rule(self, domain: str, fields: Document, document: Document) -> None:
        domains = _as_mapping(document, "domains")
        spellings = [name for name in domains if _is(name, domain)]
        for other in spellings[1:]:
            del domains[other]
        known = domains.get(spellings[0]) if spellings else None
        if not isinstance(known, dict):
            default = document.get(DEFAULT)
            start = default if isinstance(default, dict) else _fields_of(self._default)
            required = [field.name for field in RULE_FIELDS if field.is_required]
            known = {name: start[name] for name in required if name in start}
        # A new mapping: two domains of the node may share one by an alias.
        domains[spellings[0] if spellings else domain] = {**known, **fields}


def _remove_rule(domain: str, document: Document) -> None:
    domains = _as_mapping(document, "domains")
    for name in [name for name in domains if _is(name, domain)]:
        del domains[name]


def _block(domain: str, document: Document) -> None:
    blacklist = _as_list(document, "blacklist")
    if not any(_is(name, domain) for name in blacklist):
        blacklist.append(domain)


def _unblock(domain: str, document: Document) -> None:
    blacklist = _as_list(document, "blacklist")
    blacklist[:] = [name for name in blacklist if not _is(name, domain)]


def _checked(domain: str) -> str:
    """Return the domain in the node's spelling."""
    try:
        return host_name(domain)
    except InvalidUrl as error:
        raise BadTable(f"not the name of a domain: {error}") from error


def _is(name: object, domain: str) -> bool:
    return isinstance(name, str) and fold_host(name) == domain


def _as_mapping(document: Document, section: str) -> dict[Any, Any]:
    """Return a section to write into; create it if it is missing or not a mapping."""
    if not isinstance(document.get(section), dict):
        document[section] = {}
    section_value: dict[Any, Any] = document[section]
    return section_value


def _as_list(document: Document, section: str) -> list[Any]:
    if not isinstance(document.get(section), list):
        document[section] = []
    section_value: list[Any] = document[section]
    return section_value


def _fields_of(rule: ThrottleRule) -> Document:
    return {name: _plain(value) for name, value in rule.named().items()}


def _plain(number: Any) -> Any:
    """Return a whole number without ``.0``, as the predecessor's tools write and read it."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
