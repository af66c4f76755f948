"""Scope: how far from its seeds a crawl may go, as fields of a crawl request.

A request without these fields follows links to any site. A crawl that a person starts by a command
stays on the host of its seed by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import groupby
from string import ascii_letters, digits

from crawlstream.errors import InvalidUrl
from crawlstream.model.url import domain_key, host_of, host_rule, seed_url

_SPELLINGS = re.compile(r"(?:%[0-9A-Fa-f]{2})+|\\?~")
"""Parts of a path with several spellings; ``~`` is the unreserved character often escaped."""
_UNRESERVED = frozenset(f"{ascii_letters}{digits}-._~".encode())
"""Octets that mean the same whether they are escaped or not (RFC 3986, 2.3)."""


class Scope(StrEnum):
    """Links that a crawl follows."""

    HOST = "host"
    """Links to the hosts of the seeds and to their subdomains."""
    DOMAIN = "domain"
    """Links to the registrable domains of the seeds."""
    PREFIX = "prefix"
    """Links that begin like a seed's URL up to its last slash, by http or https."""
    ANY = "any"
    """All links."""


class DirectiveUse(StrEnum):
    """Use that a crawl makes of ``nofollow``."""

    RECORD = "record"
    OBEY = "obey"


class SitemapUse(StrEnum):
    """Use that a crawl makes of the sitemaps of its seeds' sites."""

    ALSO = "also"
    """Pages are found by them, and by links."""
    ONLY = "only"
    """Pages are found by them alone."""


class PageScore(StrEnum):
    """Order of waiting pages besides their priority."""

    INLINKS = "inlinks"
    """A page to which a third link is found is promoted."""


class Redirects(StrEnum):
    """Redirects out of the scope that a crawl follows."""

    SEEDS = "seeds"
    """Redirects of seeds: the target's host replaces the seed's in ``allowed_domains``."""
    SCOPE = "scope"
    """No redirects."""
    ANY = "any"
    """All redirects."""


def scope_fields(
    scope: Scope, seeds: Iterable[str], allowed: Sequence[str] = ()
) -> Mapping[str, list[str]]:
    """Return ``allowed_domains``, or ``allow_regex`` for a prefix, for each request of a crawl.

    ``allowed`` are further domains that the crawl may follow links to; with ``ANY`` they are the
    only ones. Seeds that are not URLs are ignored here: the cluster refuses them with a reason.
    """
    urls = list(_urls(seeds))
    if scope is Scope.PREFIX:
        expressions = [*map(_beginning, urls), *map(_within, allowed)]
        return {"allow_regex": _distinct(expressions)} if expressions else {}
    hosts = [] if scope is Scope.ANY else [host_of(url) for url in urls]
    if scope is Scope.DOMAIN:
        hosts = [domain_key(host) for host in hosts]
    domains = _distinct([*hosts, *allowed])
    return {"allowed_domains": domains} if domains else {}


def _urls(seeds: Iterable[str]) -> Iterable[str]:
    for seed in seeds:
        with suppress(InvalidUrl):
            yield seed_url(seed)


def _beginning(url: str) -> str:
    """Return an expression for URLs that begin like ``url`` up to the last slash of its path."""
    place = re.split(r"[?#]", url.partition("://")[2])[0]
    folder = place.rpartition("/")[0] or place
    return f"^https?://{_SPELLINGS.sub(_any_spelling, re.escape(folder))}/"


def _any_spelling(found: re.Match[str]) -> str:
    """Return an expression for characters of a path, escaped or not, in upper or lower case."""
    octets = bytes.fromhex(found[0].replace("%", "")) if found[0][0] == "%" else b"~"
    spellings = []
    for is_same, group in groupby(octets, _UNRESERVED.__contains__):
        some = bytes(group)
        written = [f"%{octet:02X}" for octet in some]
        if is_same:
            pairs = zip(some.decode(), written, strict=True)
            spellings += [f"(?:{re.escape(plain)}|(?i:{escaped}))" for plain, escaped in pairs]
        else:
            spellings.append(f"(?i:{''.join(written)})")
    return "".join(spellings)


def _within(domain: str) -> str:
    """Return an expression for the URLs of a domain and its subdomains.

    Text that is not a valid host is used unchanged.
    """
    with suppress(InvalidUrl):
        domain = host_rule(domain)
    return rf"^https?://([^/?#]*\.)?{re.escape(domain)}([:/?#]|$)"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
