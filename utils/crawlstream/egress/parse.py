"""Parse the pools in the node, strictly.

::

    default: direct
    groups: {east: de}
    domains: {shop.example.com: de}
    pools:
      de:
        spread: 1
        proxies:
        - http://${DE_USER}:${DE_PASS}@gw.example.net:8000
        - {url: "http://user-{session}:secret@gw:7777", sessions: 50}

As with the throttle rules, a table is a function of the bytes only, any invalid part makes the
whole document invalid, and unknown keys are ignored. Errors name pool, field and line number; they
never contain the line of a proxy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crawlstream.egress.url import read_url
from crawlstream.errors import BadTable
from crawlstream.model.egress.pools import DIRECT, MOST_PROXIES, SESSION, Pool, PoolTable, Proxy
from crawlstream.model.egress.tls import DEFAULT, PROFILES
from crawlstream.model.url import fold_host
from crawlstream.zoo.document import Document, kind_of
from crawlstream.zoo.node import Node

_SECTIONS = ("default", "groups", "domains", "pools")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_LABELS = 20


@dataclass(frozen=True, slots=True)
class _Number:
    """Numeric field with its bounds."""

    attribute: str
    least: float
    most: float
    kind: type[int | float] = int

    def read(self, where: str, value: Any) -> float:
        """Return the number; raise BadTable if it is not a number or out of bounds."""
        wanted = (int, float) if self.kind is float else int
        is_number = isinstance(value, wanted) and not isinstance(value, bool)
        if is_number and self.least <= value <= self.most:  # False of .nan, too
            return self.kind(value)
        what = "a whole number" if self.kind is int else "a number"
        raise BadTable(
            f"{where} is {kind_of(value)}, not {what} from {self.least:g} to {self.most:g}"
        )


_NUMBERS = {
    "spread": _Number("spread", 1, 1000),
    "uses": _Number("uses", 0, 1_000_000_000),
    "rest": _Number("rest_s", 0, 86_400, float),
    "concurrency": _Number("concurrency", 0, 10_000),
}
_GROUPS = {
    "budget": {
        "requests": _Number("budget_requests", 0, 10**12),
        "gigabytes": _Number("budget_gb", 0, 10**9, float),
    },
    "price": {"per_gb": _Number("price_per_gb", 0, 10**9, float)},
}
"""Numbers in a mapping of their own."""
_CHOICES = {
    "per": ("site", "crawl"),
    "dns": ("check", "local"),
    "plain": ("tunnel", "absolute"),
}
_WEIGHT = _Number("weight", 0.01, 1000, float)
_SESSIONS = _Number("sessions", 1, MOST_PROXIES)


def node_of(path: str) -> Node[PoolTable]:
    """Return the node with the pools."""
    return Node(path=path, table_of=table_of, what="proxy pools", event="proxies", is_secret=True)


def table_of(document: Document, czxid: int, mzxid: int) -> PoolTable:
    """Return the table in a document; raise BadTable with the place of an error."""
    if not any(section in document for section in _SECTIONS):
        raise BadTable(f"the node has none of {', '.join(_SECTIONS)}")
    pools: dict[str, Pool] = {}
    for name, value in _mapping("pools", document.get("pools", {})).items():
        if not is_name(name) or name == DIRECT:
            raise BadTable(f"pools: {kind_of(name)} is not a name for a pool")
        pools[name] = _pool(name, value)
    if (count := sum(len(pool.proxies) for pool in pools.values())) > MOST_PROXIES:
        raise BadTable(f"the pools have {count} proxies, more than the {MOST_PROXIES} allowed")
    table = PoolTable(
        pools=pools,
        default=document.get("default", DIRECT),
        groups=dict(_mapping("groups", document.get("groups", {}))),
        domains=_domains(document),
        czxid=czxid,
        mzxid=mzxid,
    )
    _check_references(table)
    return table


def is_name(name: object) -> bool:
    """Return whether a name is valid for a pool."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _domains(document: Document) -> dict[str, str]:
    domains: dict[str, str] = {}
    for name, pool in _mapping("domains", document.get("domains", {})).items():
        domain = fold_host(name) if isinstance(name, str) else ""
        if not domain:
            raise BadTable(f"domains: {kind_of(name)} is not the name of a domain")
        if domains.setdefault(domain, pool) != pool:
            raise BadTable(f"domains: {domain} stands there twice, with different pools")
    return domains


def _check_references(table: PoolTable) -> None:
    """Check that every referenced pool exists."""
    named: list[tuple[str, object]] = [("default", table.default)]
    named += [(f"groups: {kind_of(group)}", pool) for group, pool in table.groups.items()]
    named += [(f"domains: {domain}", pool) for domain, pool in table.domains.items()]
    for pool in table.pools.values():
        named += [(f"pools: {pool.name}: fallback", other) for other in pool.fallback]
    for where, name in named:
        if not isinstance(name, str) or (name != DIRECT and name not in table.pools):
            raise BadTable(f"{where} names {kind_of(name)}, which is no pool")


def _pool(name: str, value: object) -> Pool:
    where = f"pools: {name}"
    fields = _mapping(where, value)
    given = _numbers(where, _NUMBERS, fields)
    for key, numbers in _GROUPS.items():
        inner = f"{where}: {key}"
        given |= _numbers(inner, numbers, _mapping(inner, fields.get(key, {})))
    for key, choices in _CHOICES.items():
        if key in fields:
            if fields[key] not in choices:
                raise BadTable(
                    f"{where}: {key} is {kind_of(fields[key])}, not one of {', '.join(choices)}"
                )
            given[key] = fields[key]
    if given.get("dns") == "local" and given.get("plain") == "absolute":
        raise BadTable(f"{where}: dns: local needs plain: tunnel; whole URLs have names")
    return Pool(
        name=name,
        proxies=tuple(_proxies(where, fields.get("proxies", []))),
        tls=_profiles(f"{where}: tls", fields.get("tls", [DEFAULT])),
        fallback=_texts(f"{where}: fallback", fields.get("fallback", [])),
        apps=_texts(f"{where}: apps", fields.get("apps", [])),
        disabled=_switch(f"{where}: disabled", fields.get("disabled", False)),
        **given,
    )


def _numbers(
    where: str, numbers: Mapping[str, _Number], fields: Mapping[Any, Any]
) -> dict[str, Any]:
    return {
        number.attribute: number.read(f"{where}: {key}", fields[key])
        for key, number in numbers.items()
        if key in fields
    }


def _proxies(where: str, lines: object) -> Iterator[Proxy]:
    if not isinstance(lines, list):
        raise BadTable(f"{where}: proxies is not a list (empty: [])")
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        for proxy in proxies_in(f"{where}: proxies: line {number}", line):
            if proxy.id in seen:
                raise BadTable(f"{where}: proxies: line {number} repeats a proxy of the pool")
            if len(seen) == MOST_PROXIES:
                raise BadTable(f"{where} has more than {MOST_PROXIES} proxies")
            seen.add(proxy.id)
            yield proxy


def proxies_in(where: str, line: object) -> Iterator[Proxy]:
    """Yield the proxies of a line: one, or one per session."""
    fields: Mapping[Any, Any] = line if isinstance(line, dict) else {"url": line}
    url = fields.get("url")
    if not isinstance(url, str):
        raise BadTable(f"{where} is neither a URL nor a mapping with url")
    try:
        proxy = read_url(url)
    except BadTable as error:
        raise BadTable(f"{where} {error}") from None
    proxy = replace(
        proxy,
        weight=_WEIGHT.read(f"{where}: weight", fields.get("weight", 1)),
        labels=_texts(f"{where}: labels", fields.get("labels", []))[:_MOST_LABELS],
        disabled=_switch(f"{where}: disabled", fields.get("disabled", False)),
    )
    has_place = SESSION in proxy.user or SESSION in proxy.password.reveal()
    if has_place != ("sessions" in fields):
        raise BadTable(f"{where} needs both {SESSION} in its URL and sessions, or neither")
    if not has_place:
        yield proxy
        return
    count = int(_SESSIONS.read(f"{where}: sessions", fields["sessions"]))
    yield from (replace(proxy, session=number) for number in range(1, count + 1))


def _mapping(where: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, dict):
        raise BadTable(f"{where} is not a mapping (empty: {{}})")
    return value


def _texts(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise BadTable(f"{where} is not a list of texts")
    if isinstance(value, str):
        raise BadTable(f"{where} is one text, not a list of texts")
    return tuple(value)


def _profiles(where: str, value: object) -> tuple[str, ...]:
    found = _texts(where, value)
    if unknown := sorted(set(found) - set(PROFILES)):
        raise BadTable(f"{where} names {unknown[0]!r}, which is not one of {', '.join(PROFILES)}")
    if not found or len(set(found)) < len(found):
        raise BadTable(f"{where} must name at least one TLS profile, and none twice")
    return found


def _switch(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadTable(f"{where} is {kind_of(value)}, not true or false")
    return value
