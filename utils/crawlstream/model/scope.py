"""Scope: how far from its seeds a crawl may go, in the fields of a crawl request.

The records say nothing of it: a request without these fields leads wherever links lead. A person
who starts a crawl by hand means a site, and gets its host unless told otherwise.
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
"""What of a path is written in more than one way; ``~`` is the one that people still escape."""
_UNRESERVED = frozenset(f"{ascii_letters}{digits}-._~".encode())
"""Octets that mean the same whether they are escaped or not (RFC 3986, 2.3)."""


class Scope(StrEnum):
    """Which links of a crawl are followed."""

    HOST = "host"
    """Those to the hosts of the seeds, and to what is below these."""
    DOMAIN = "domain"
    """Those to the registrable domains of the seeds."""
    PREFIX = "prefix"
    """Those whose URL begins as a seed does up to its last slash, by http or https."""
    ANY = "any"
    """All."""


class Redirects(StrEnum):
    """Which redirects are followed that lead out of the scope of a crawl."""

    SEEDS = "seeds"
    """Those of seeds: where they end takes the seed's place in ``allowed_domains``."""
    SCOPE = "scope"
    """None."""
    ANY = "any"
    """All."""


def scope_fields(
    scope: Scope, seeds: Iterable[str], allowed: Sequence[str] = ()
) -> Mapping[str, list[str]]:
    """``allowed_domains``, and for a prefix ``allow_regex``, of each request of such a crawl.

    ``allowed`` are further domains that it may follow links to; beside ``ANY`` they are the only
    ones. Seeds that are no URLs say nothing: the cluster refuses them by name.
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
    """An expression for what begins as a URL does, up to the last slash of its path."""
    place = re.split(r"[?#]", url.partition("://")[2])[0]
    folder = place.rpartition("/")[0] or place
    return f"^https?://{_SPELLINGS.sub(_any_spelling, re.escape(folder))}/"


def _any_spelling(found: re.Match[str]) -> str:
    """Return an expression for characters of a path, escaped or not, in either case."""
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
    """An expression for the URLs of a domain and of what is below it.

    Text that is no host stays as it is.
    """
    with suppress(InvalidUrl):
        domain = host_rule(domain)
    return rf"^https?://([^/?#]*\.)?{re.escape(domain)}([:/?#]|$)"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
