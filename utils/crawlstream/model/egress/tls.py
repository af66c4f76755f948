"""TLS profiles: the TLS versions and ciphers that a crawler offers to a site."""

from __future__ import annotations

from typing import Final

DEFAULT: Final = "default"
"""Profile of libcurl, from TLS 1.2 on."""
LEGACY: Final = "legacy"
"""Profile of libcurl from TLS 1.0 on, with ciphers that are no longer safe, for old servers."""

BROWSERS: Final = ("chrome", "firefox", "safari")
"""Profiles that imitate a browser; they need the extra ``crawlstream[tls]``."""

PROFILES: Final = (DEFAULT, LEGACY, *BROWSERS)
"""All profiles; the operator configures which of them may be used."""


def refusal(name: str, allowed: tuple[str, ...]) -> str:
    """Return why a profile may not be used, as a sentence; empty if it may."""
    if name in allowed:
        return ""
    return (
        f"the TLS profile {name!r} is not allowed in this cluster; allowed: {', '.join(allowed)}"
        " (CRAWLSTREAM_TLS_PROFILES)"
    )
