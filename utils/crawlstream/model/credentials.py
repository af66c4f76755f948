"""Where what identifies a client may be sent: its cookies, and the headers of its seed.

To the seed's own domain, as browsers have it for cookies: the registrable domain by the
public-suffix list with its private section, under which strangers have names beside each other
(``alice.github.io`` is one, ``github.io`` is none). An address, a single label and a public suffix
own nothing but themselves. What was given for https is never sent without it.

Politeness counts by another measure (``model.url.domain_key``): to a server, all of
``github.io`` is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from crawlstream.model.url import SUFFIXES, host_of

_HOSTS_REMEMBERED = 4096
_SECURE = "https://"

NAMES = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that identify whoever sends them, in lower case."""

_HARMLESS = frozenset(
    {
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control",
        "content-type", "dnt", "if-modified-since", "if-none-match", "pragma", "priority", "range",
        "referer", "upgrade-insecure-requests", "user-agent",
    }
)  # fmt: skip
"""Headers that every browser sends to everybody; so are all of ``sec-*``."""


def identify(names: Iterable[str]) -> bool:
    """Whether headers (names in lower case) may tell a server who asks: any that we do not know."""
    return any(name not in _HARMLESS and not name.startswith("sec-") for name in names)


def scope_of(url: str) -> str:
    """The scope of a canonical or seed URL: its own domain, after ``https://`` if it is so."""
    domain = _own_domain(host_of(url))
    return f"{_SECURE}{domain}" if url.startswith(_SECURE) else domain


def covers(scope: str, url: str) -> bool:
    """Whether a canonical or seed URL is within a scope."""
    if scope.startswith(_SECURE) and not url.startswith(_SECURE):
        return False
    return scope.removeprefix(_SECURE) == _own_domain(host_of(url))


def may_follow(target: str, url: str) -> bool:
    """Whether what was sent to a URL may go along to a redirect's target.

    To the same host only, no less encrypted: nobody meant the target when it was given.
    """
    is_worse = url.startswith(_SECURE) and not target.startswith(_SECURE)
    return host_of(target) == host_of(url) and not is_worse


def may_set_for(domain: str, host: str) -> bool:
    """Return whether a host may set a cookie for a domain: for itself, and for others of its own.

    RFC 6265, 5.3: not for another one's, nor for a public suffix, under which strangers are.
    """
    own = _own_domain(host)
    is_own = domain == own or domain.endswith(f".{own}")
    return domain == host or (is_own and host.endswith(f".{domain}"))


@lru_cache(_HOSTS_REMEMBERED)
def _own_domain(host: str) -> str:
    found = SUFFIXES.extract_str(host, include_psl_private_domains=True)
    return found.top_domain_under_public_suffix or host
