"""Rules for where a client's credentials may be sent: its cookies and the headers of its seed.

They are sent to the seed's own domain, as cookies are in browsers: the registrable domain by the
public-suffix list with its private section, which lists suffixes whose subdomains belong to
different owners (``alice.github.io`` is a domain of its own, ``github.io`` is not). The own domain
of an IP address, a single label or a public suffix is only itself. Credentials given for https are
never sent without encryption.

Rate limits use another unit (``model.url.domain_key``): all of ``github.io`` is a single server.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from crawlstream.model.url import SUFFIXES, host_of

_HOSTS_REMEMBERED = 4096
_SECURE = "https://"

NAMES = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that identify the sender, in lower case."""

_HARMLESS = frozenset(
    {
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control",
        "content-type", "dnt", "if-modified-since", "if-none-match", "pragma", "priority", "range",
        "referer", "upgrade-insecure-requests", "user-agent",
    }
)  # fmt: skip
"""Headers that every browser sends to all sites, like all of ``sec-*``."""


def identify(names: Iterable[str]) -> bool:
    """Return whether headers may identify the client: true for unknown ones (lower-case names)."""
    return any(name not in _HARMLESS and not name.startswith("sec-") for name in names)


def scope_of(url: str) -> str:
    """Return the scope of a canonical or seed URL: its own domain, with ``https://`` for https."""
    domain = _own_domain(host_of(url))
    return f"{_SECURE}{domain}" if url.startswith(_SECURE) else domain


def covers(scope: str, url: str) -> bool:
    """Return whether a canonical or seed URL is within a scope."""
    if scope.startswith(_SECURE) and not url.startswith(_SECURE):
        return False
    return scope.removeprefix(_SECURE) == _own_domain(host_of(url))


def may_follow(target: str, url: str) -> bool:
    """Return whether credentials sent to a URL may also be sent to its redirect's target.

    They may only be sent to the same host and not from https to http, since the client did not name
    the target.
    """
    is_worse = url.startswith(_SECURE) and not target.startswith(_SECURE)
    return host_of(target) == host_of(url) and not is_worse


def may_set_for(domain: str, host: str) -> bool:
    """Return whether a host may set a cookie for a domain: for itself or within its own domain.

    By RFC 6265, 5.3 it may not set one for the domain of another owner or for a public suffix.
    """
    own = _own_domain(host)
    is_own = domain == own or domain.endswith(f".{own}")
    return domain == host or (is_own and host.endswith(f".{domain}"))


@lru_cache(_HOSTS_REMEMBERED)
def _own_domain(host: str) -> str:
    found = SUFFIXES.extract_str(host, include_psl_private_domains=True)
    return found.top_domain_under_public_suffix or host
