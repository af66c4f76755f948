"""Change the pools: read, change, and write back unless another client has changed them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from crawlstream.called import COMMAND
from crawlstream.egress.parse import is_name, node_of, proxies_in
from crawlstream.errors import BadTable, InvalidUrl
from crawlstream.model.egress.pools import DIRECT, PoolTable, Proxy
from crawlstream.model.url import fold_host, host_name
from crawlstream.zoo.document import Document
from crawlstream.zoo.node import change_node, read_node

DEFAULT = "default"
"""Name for all domains without a pool of their own."""


class PoolEditor:
    """Edits the node by compare-and-set on its version, keeping unknown keys.

    Each method connects, works and disconnects within 5 s, and returns the resulting table. It
    raises ZooKeeperUnavailable (the edit may have been applied; repeating it is harmless), Conflict
    (other clients kept writing), or BadTable (the node is unreadable and therefore not overwritten,
    the new value is invalid, or the pools exceed 1 MiB).
    """

    def __init__(self, hosts: Sequence[str], path: str) -> None:
        self._hosts = hosts
        self._node = node_of(path)

    async def read(self) -> PoolTable:
        """Return the current pools in ZooKeeper."""
        return await asyncio.to_thread(read_node, self._hosts, self._node)

    async def seed(self) -> PoolTable:
        """Create the node without any pool if it does not exist.

        A node that was emptied is not changed: its pools are lost, but may still be restored.
        """
        return await self._change(lambda _: None)

    async def set_pool(
        self, name: str, lines: Sequence[Document] = (), *, policy: Mapping[str, Any]
    ) -> PoolTable:
        """Create a pool, or change its policy; fields have their names in the node.

        ``lines`` are proxies, each with ``url`` and other fields; a proxy that the pool already has
        is changed in its place, for example to a new password.
        """
        if not is_name(name) or name == DIRECT:
            raise BadTable(f"{name[:70]!r} is not a name for a pool: use A-Z a-z 0-9 . _ -")
        return await self._change(partial(_set_pool, name, lines, policy))

    async def remove_pool(self, name: str) -> PoolTable:
        """Remove a pool that is not referenced."""
        return await self._change(partial(_remove_pool, name))

    async def remove_proxies(self, name: str, ids: Collection[str]) -> PoolTable:
        """Remove the lines of some proxies; a line with sessions is removed with all of them."""
        return await self._change(partial(_change_lines, name, ids, lambda _: None))

    async def disable(
        self, name: str, ids: Collection[str] = (), *, disabled: bool = True
    ) -> PoolTable:
        """Disable a pool, or the lines of some of its proxies, until they are enabled."""
        fields = {"disabled": disabled}
        if ids:
            return await self._change(partial(_change_lines, name, ids, partial(_merged, fields)))
        return await self._change(partial(_change_policy, name, fields))

    async def use(self, domain: str, pool: str) -> PoolTable:
        """Assign a pool to a domain, or to all without a pool of their own (``default``)."""
        return await self._change(partial(_use, domain, pool))

    async def _change(self, edit: Callable[[Document], None]) -> PoolTable:
        return await asyncio.to_thread(
            change_node,
            self._hosts,
            self._node,
            edit,
            fresh=lambda: {DEFAULT: DIRECT, "domains": {}, "pools": {}},
        )


def _set_pool(
    name: str, lines: Sequence[Document], policy: Mapping[str, Any], document: Document
) -> None:
    pools = _section(document, "pools")
    known = pools.get(name)
    before: dict[Any, Any] = known if isinstance(known, dict) else {}
    # Fields below a key are also changed one by one.
    below = {
        key: {**old, **value}
        for key, value in policy.items()
        if isinstance(value, dict) and isinstance(old := before.get(key), dict)
    }
    pool = {"proxies": [], **before, **policy, **below}
    pool["proxies"] = _with_lines(name, pool["proxies"], lines)
    pools[name] = pool


def _with_lines(name: str, before: Any, lines: Sequence[Document]) -> list[Any]:
    """Return the lines of a pool with further ones; a known proxy stays in its place."""
    after = list(before)
    places = {
        proxy.id: place for place, line in enumerate(after) for proxy in _proxies_of(name, line)
    }
    for number, line in enumerate(lines, 1):
        ids = [proxy.id for proxy in proxies_in(f"proxy {number}", line)]
        place = next((places[each] for each in ids if each in places), len(after))
        if place == len(after):
            after.append({})
        places.update(dict.fromkeys(ids, place))
        fields = _merged(line, after[place] or line)
        after[place] = fields["url"] if len(fields) == 1 else fields
    return after


def _remove_pool(name: str, document: Document) -> None:
    pools = _section(document, "pools")
    _pool_of(pools, name)
    if users := list(_users_of(name, pools, document)):
        raise BadTable(
            f"the pool {name!r} is still used by {', '.join(users[:5])}: let them use another"
            " pool, or direct, first"
        )
    del pools[name]


def _users_of(name: str, pools: Mapping[Any, Any], document: Document) -> Iterator[str]:
    if document.get(DEFAULT) == name:
        yield "all domains without a pool of their own"
    for section in ("domains", "groups"):
        for key, pool in _section(document, section).items():
            if pool == name:
                yield f"{section[:-1]} {key}"
    for other, pool in pools.items():
        if isinstance(pool, dict) and name in (pool.get("fallback") or ()):
            yield f"pool {other}, as its fallback"


def _change_policy(name: str, fields: Document, document: Document) -> None:
    pools = _section(document, "pools")
    pools[name] = {**_pool_of(pools, name), **fields}


def _change_lines(
    name: str, ids: Collection[str], change: Callable[[Any], Any], document: Document
) -> None:
    """Change each line that has one of these proxies, or drop it if ``change`` returns None."""
    pools = _section(document, "pools")
    pool = _pool_of(pools, name)
    left, lines = set(ids), []
    for line in pool.get("proxies") or ():
        found = {proxy.id for proxy in _proxies_of(name, line)} & set(ids)
        left -= found
        if (after := change(line) if found else line) is not None:
            lines.append(after)
    if left:
        raise BadTable(
            f"the pool {name!r} has no proxy {', '.join(sorted(left))}: `{COMMAND} proxies show"
            f" {name}` lists them"
        )
    pools[name] = {**pool, "proxies": lines}


def _merged(fields: Document, line: Any) -> Document:
    return {**(line if isinstance(line, dict) else {"url": line}), **fields}


def _use(domain: str, pool: str, document: Document) -> None:
    if domain == DEFAULT:
        document[DEFAULT] = pool
        return
    try:
        name = host_name(domain)
    except InvalidUrl as error:
        raise BadTable(f"not the name of a domain: {error}") from error
    domains = _section(document, "domains")
    for known in [
        known for known in domains if isinstance(known, str) and fold_host(known) == name
    ]:
        del domains[known]
    domains[name] = pool


def _proxies_of(name: str, line: Any) -> Iterator[Proxy]:
    return proxies_in(f"pools: {name}: proxies: a line", line)


def _pool_of(pools: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    pool = pools.get(name)
    if not isinstance(pool, dict):
        known = ", ".join(sorted(map(str, pools))) or "none"
        raise BadTable(f"there is no pool {name!r}; the pools are: {known}")
    return pool


def _section(document: Document, section: str) -> dict[Any, Any]:
    """Return a section to write into; create it if it is missing."""
    return document.setdefault(section, {})  # type: ignore[no-any-return]
