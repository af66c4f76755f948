"""How pages leave: proxies, the pools that they stand in, and which pool a page uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, get_args
from urllib.parse import quote

from crawlstream.model.egress.tls import DEFAULT

DIRECT = "direct"
"""The pool without any proxy."""

UNREADABLE = "(unreadable)"
"""A pool that there never is: pages of it wait."""

Scheme = Literal["http", "https", "socks5"]
"""How a proxy is spoken to: HTTP, HTTP inside TLS, SOCKS 5."""
SCHEMES: frozenset[str] = frozenset(get_args(Scheme))

SESSION = "{session}"
"""Stands in a user name or password for the number of the session."""

MOST_PROXIES = 10_000
"""Of all pools together."""

_ID_BYTES = 5
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DOTS = "•••"


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that no log, no error and no reply may show: whoever prints it gets dots."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The text, for whoever has to send it."""
        return self._text

    def __repr__(self) -> str:
        return _DOTS

    __str__ = __repr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One address to leave from; user name and password as written, ``${NAME}`` not filled in."""

    scheme: Scheme
    host: str
    """A name, or an address without brackets."""
    port: int
    user: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    session: int = 0
    """Number of this one among the sessions of its line, from 1; 0: the line has none."""
    weight: float = 1
    """Its share of the sites, beside that of the others."""
    labels: tuple[str, ...] = ()
    disabled: bool = False
    """Whether a person has banned it without an end."""

    id: str = field(init=False, default="", compare=False)
    """Its name wherever it is shown; the password is no part of it, so it may change."""

    def __post_init__(self) -> None:
        """Work its name out, once: it is asked for with every request."""
        told = "\0".join((self.scheme, self.user, self.host, str(self.port), str(self.session)))
        name = blake2b(told.encode(), digest_size=_ID_BYTES).hexdigest()
        object.__setattr__(self, "id", f"p-{name}")

    @property
    def address(self) -> str:
        """Host and port, as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Its URL for people, without the password; a variable is shown by its name."""
        if not (self.user or self.password.reveal()):
            return f"{self.scheme}://{self.address}"
        user = _VARIABLE.sub(r"\1", self.user) if _VARIABLE.fullmatch(self.user) else self.user
        user = quote(user.replace(SESSION, str(self.session)), safe="")
        return f"{self.scheme}://{user}:{_DOTS}@{self.address}"

    def credentials(self, environment: Mapping[str, str]) -> tuple[str, Secret] | None:
        """User name and password with their variables filled in; None: it asks for none.

        KeyError names a variable that the environment has not.
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
    """Proxies that a site is asked through at a time; 1: sticky."""
    per: Literal["site", "crawl"] = "site"
    """Whether crawls of a site share its proxies."""
    uses: int = 0
    """Requests to a site after which a proxy rests there; 0: it need not."""
    rest_s: float = 300
    """How long a proxy leaves a site alone that has refused it, or that it was used for enough."""
    concurrency: int = 8
    """Requests through one proxy at once, of all workers together; 0: any number."""
    budget_requests: int = 0
    """Of a day in UTC; 0: any number."""
    budget_gb: float = 0
    """The same of its traffic, in gigabytes."""
    price_per_gb: float = 0
    """Of its traffic, in the currency of ``crawlstream cost``."""
    dns: Literal["check", "local"] = "check"
    """Who looks a site's name up: ``check``: both, we to vet it; ``local``: we alone."""
    plain: Literal["tunnel", "absolute"] = "tunnel"
    """How http:// goes through an HTTP proxy: by CONNECT, or by a request for the whole URL."""
    tls: tuple[str, ...] = (DEFAULT,)
    """TLS profiles, in the order in which they are tried after failed handshakes."""
    fallback: tuple[str, ...] = ()
    """Pools that are asked when no proxy of this one will do."""
    apps: tuple[str, ...] = ()
    """Applications that may name it; none: all."""
    disabled: bool = False
    """Whether a person holds its pages back."""

    @property
    def budget_bytes(self) -> int:
        """Of a day in UTC; 0: any number."""
        return int(self.budget_gb * 1e9)

    @property
    def is_counted(self) -> bool:
        """Whether what it uses in a day is counted."""
        return bool(self.budget_requests or self.budget_gb or self.price_per_gb)

    def admits(self, appid: str) -> bool:
        """Whether an application may name it."""
        return not self.apps or appid in self.apps


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTable:
    """All pools, and which of them is for what, at one version of the node."""

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
        """Whether no page can leave through a proxy."""
        return not self.pools

    @property
    def is_plain(self) -> bool:
        """Whether every page that names no pool leaves directly."""
        return not (self.pools or self.domains or self.groups) and self.default == DIRECT

    def pool_for(self, host: str, *, named: str | None = None, group: str = "") -> str:
        """The pool of a page: the one that it names, else that of the most specific domain.

        A name that the table does not know is answered as it is: its pages wait.
        """
        if named is not None:
            return named
        for name in _above(host):
            if name in self.domains:
                return self.domains[name]
        return self.groups.get(group, self.default)

    def pool_with(self, proxy: str) -> str | None:
        """The name of the first pool with a proxy of this id."""
        for name, pool in self.pools.items():
            if any(each.id == proxy for each in pool.proxies):
                return name
        return None

    def refusal(self, name: str, appid: str) -> str:
        """Why an application may not name a pool, as a sentence; empty if it may."""
        if name == DIRECT:
            return ""
        pool = self.pools.get(name)
        if pool is None:
            known = ", ".join(sorted((DIRECT, *self.pools)))
            return f"there is no pool {name!r}; the pools are {known}"
        return "" if pool.admits(appid) else f"the pool {name!r} is not for the appid {appid!r}"


def _above(host: str) -> Iterator[str]:
    """A host, and the domains that it lies in, the most specific first."""
    while host:
        yield host
        host = host.partition(".")[2]
