"""Names of domains as people write them into tables."""

from __future__ import annotations

import idna


def fold(domain: str) -> str:
    """One spelling of a domain: lower case, ASCII, no trailing dot, no brackets."""
    name = domain.strip().strip("[]").removesuffix(".").lower()
    if name.isascii():
        return name
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return name
