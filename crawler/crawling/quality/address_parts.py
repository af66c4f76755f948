"""Places of pages for the waste guard: families of a URL, and keys to compare its text by."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from crawling.quality.family import families_of
from crawlstream.model.url import host_of
from crawlstream_frontier.waste.votes import HOST, PagePair, SitePlace

_MOST_PAIRED = 8
"""Parameters of a URL that are compared."""
_PLACES_REMEMBERED = 8_192
"""Pages of a site share parents and links; some 4 MB."""


@lru_cache(_PLACES_REMEMBERED)
def place_of(url: str) -> SitePlace:
    """Return the place of an address in its site."""
    return SitePlace(host_hash(host_of(url)), families_of(url, ""))


def pairs_of(url: str) -> tuple[PagePair, ...]:
    """Return what the text of a page is compared by: each parameter, and its host."""
    scheme, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    host, slash, path = address.partition("/")
    arguments = query.split("&") if query else []
    pairs = [PagePair(HOST, _key(HOST, f"{scheme}:{slash}{path}?{query}"), _value(_bare(host)))]
    for n, argument in enumerate(arguments[:_MOST_PAIRED]):
        name, equals, value = argument.partition("=")
        if equals:
            others = "&".join(sorted(arguments[:n] + arguments[n + 1 :]))
            family = f"?{name}"
            pairs.append(PagePair(family, _key(family, f"{address}?{others}"), _value(value)))
    return tuple(pairs)


def address_hash(url: str) -> int:
    """Return the hash by which a sketch knows a page again, 8 bits."""
    return crc32(url.encode(errors="surrogatepass")) & 0xFF


def host_hash(host: str) -> int:
    """Return the hash by which a sketch knows a host; ``www.`` makes no difference."""
    return crc32(_bare(host).encode()) & 0xFFFF


def _bare(host: str) -> str:
    return host.removeprefix("www.")


def _key(family: str, rest: str) -> int:
    return crc32(f"{family} {rest}".encode()) >> 8


def _value(value: str) -> int:
    return crc32(value.encode()) & 0xFF
