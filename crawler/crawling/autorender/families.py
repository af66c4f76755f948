"""Families of URLs that are likely to be made in the same way."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from crawling.quality.family import path_family
from crawlstream.model.url import host_of


@lru_cache(8_192)
def family_of(url: str) -> int:
    """Return the hash of the family of an address: its host, and the form of its path.

    Parameters do not matter. Pages directly below the root are one family, and the root another.
    """
    address = url.partition("://")[2].partition("?")[0]
    path = path_family(url) if address.partition("/")[2] else "/"
    if path != "/" and path.count("/") == 1:
        path = "/*"
    return crc32(f"{host_of(url).removeprefix('www.')}{path}".encode(errors="surrogatepass"))
