"""Proxies, their pools, and the pool that a page uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, get_args
from urllib.parse import quote

from crawlstream.model.egress.tls import DEFAULT

DIRECT = "direct"
"""Name of the pool without any proxy."""

UNREADABLE = "(unreadable)"
"""Name of a pool that never exists: its pages wait."""

Scheme = Literal["http", "https", "socks5"]
"""Protocol to a proxy: HTTP, HTTP inside TLS, SOCKS 5."""
SCHEMES: frozenset[str] = frozenset(get_args(Scheme))

SESSION = "{session}"
"""Placeholder in a user name or password for the number of the session."""

MOST_PROXIES = 10_000
"""Maximum number of proxies in all pools together."""

_ID_BYTES = 5
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DOTS = "•••"


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that logs, errors and replies must not show: it prints as dots."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Return the text, to send it."""
        return self._text

    def __repr__(self) -> str:
        return _DOTS

    __str__ = __repr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Proxy, with user name and password as written: ``${NAME}`` is not replaced."""

    scheme: Scheme
    host: str
    """Host name, or IP address without brackets."""
    port: int
    user: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    session: int = 0
    """Number among the sessions of its line, from 1; 0: the line has no sessions."""
    weight: float = 1
    """Its share of the sites, relative to the other proxies."""
    labels: tuple[str, ...] = ()
    disabled: bool = False
    """True if an operator has banned it permanently."""

    id: str = field(init=False, default="", compare=False)
    """Public name. It does not depend on the password, which may change."""

    def __post_init__(self) -> None:
        """Compute the id once: every request uses it."""
        told = "\0".join((self.scheme, self.user, self.host, str(self.port), str(self.session)))
        name = blake2b(told.encode(), digest_size=_ID_BYTES).hexdigest()
        object.__setattr__(self, "id", f"p-{name}")

    @property
    def address(self) -> str:
        """Return host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Return its URL for people, without the password; a variable is shown by its name."""
        if not (self.user or self.password.reveal()):
            return f"{self.scheme}://{self.address}"
        user = _VARIABLE.sub(r"\1", self.user) if _VARIABLE.fullmatch(self.user) else self.user
        user = quote(user.replace(SESSION, str(self.session)), safe="")
        return f"{self.scheme}://{user}:{_DOTS}@{self.address}"

    def credentials(self, environment: Mapping[str, str]) -> tuple[str, Secret] | None:
        """Return user name and password with their variables replaced; None: it needs none.

        Raise KeyError with the name of a variable that the environment lacks.
        """
        if not self.user and not self.password.reveal():
            return None
        user = self._filled(self.user, environment)
        password = self._filled(self.password.reveal(), environment)
        return (user, Secret(password)) if user or password else None

    def _filled(self, text: str, environment: Mapping[str, str]) -> str:
        text = text.replace(SESSION, str(self.session))
        return _VARIABLE.sub(lambda found: environment[found[1]], text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Proxies under one policy."""

    name: str
    proxies: tuple[Proxy, ...] = ()
    spread: int = 4
    """Number of proxies used for a site at a time; 1: sticky."""
    per: Literal["site", "crawl"] = "site"
    """``site``: the crawls of a site share its proxies. ``crawl``: each crawl has its own."""
    uses: int = 0
    """Requests to a site after which a proxy rests for it; 0: no rest."""
    rest_s: float = 300
    """Seconds for which a proxy rests for a site after a refusal or after ``uses`` requests."""
    concurrency: int = 8
    """Concurrent requests through one proxy by all workers together; 0: no limit."""
    budget_requests: int = 0
    """Requests per day in UTC; 0: no limit."""
    budget_gb: float = 0
    """Gigabytes of traffic per day in UTC; 0: no limit."""
    price_per_gb: float = 0
    """Price of its traffic, in the currency of ``crawlstream cost``."""
    dns: Literal["check", "local"] = "check"
    """Resolver of a site's name. ``check``: the crawler, to vet it, and the proxy; ``local``: only
    the crawler."""
    plain: Literal["tunnel", "absolute"] = "tunnel"
    """Method for http:// through an HTTP proxy: CONNECT, or a request for the absolute URL."""
    tls: tuple[str, ...] = (DEFAULT,)
    """TLS profiles, in the order in which they are tried after failed handshakes."""
    fallback: tuple[str, ...] = ()
    """Pools to use if no proxy of this one is available."""
    apps: tuple[str, ...] = ()
    """Applications that may name it; empty: all."""
    disabled: bool = False
    """True if an operator holds its pages back."""

    @property
    def budget_bytes(self) -> int:
        """Return the bytes per day in UTC; 0: no limit."""
        return int(self.budget_gb * 1e9)

    @property
    def is_counted(self) -> bool:
        """Return whether its requests and traffic per day are counted."""
        return bool(self.budget_requests or self.budget_gb or self.price_per_gb)

    def admits(self, appid: str) -> bool:
        """Return whether an application may name it."""
        return not self.apps or appid in self.apps


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTable:
    """All pools and their assignments, at one version of the ZooKeeper node."""

    pools: Mapping[str, Pool] = field(default_factory=dict)
    default: str = DIRECT
    groups: Mapping[str, str] = field(default_factory=dict)
    """Pool by egress group of the worker."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """Pool by domain or host."""
    czxid: int = 0
    mzxid: int = 0

    @property
    def is_needless(self) -> bool:
        """Return whether no page can be requested through a proxy."""
        return not self.pools

    @property
    def is_plain(self) -> bool:
        """Return whether every page that names no pool is requested directly."""
        return not (self.pools or self.domains or self.groups) and self.default == DIRECT

    def pool_for(self, host: str, *, named: str | None = None, group: str = "") -> str:
        """Return the pool of a page: the one that it names, or that of the most specific domain.

        A name that is not in the table is returned unchanged: its pages wait.
        """
        if named is not None:
            return named
        for name in _above(host):
            if name in self.domains:
                return self.domains[name]
        return self.groups.get(group, self.default)

    def pool_with(self, proxy: str) -> str | None:
        """Return the name of the first pool with a proxy of this id."""
        for name, pool in self.pools.items():
            if any(each.id == proxy for each in pool.proxies):
                return name
        return None

    def refusal(self, name: str, appid: str) -> str:
        """Return why an application may not name a pool, as a sentence; empty if it may."""
        if name == DIRECT:
            return ""
        pool = self.pools.get(name)
        if pool is None:
            known = ", ".join(sorted((DIRECT, *self.pools)))
            return f"there is no pool {name!r}; the pools are {known}"
        return "" if pool.admits(appid) else f"the pool {name!r} is not for the appid {appid!r}"


def _above(host: str) -> Iterator[str]:
    """Yield a host and its parent domains, the most specific first."""
    while host:
        yield host
        host = host.partition(".")[2]
