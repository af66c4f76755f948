"""TLS profiles: how a crawler greets a site that speaks TLS."""

from __future__ import annotations

from typing import Final

DEFAULT: Final = "default"
"""As libcurl does it, from TLS 1.2 on."""
LEGACY: Final = "legacy"
"""The same from TLS 1.0 on, with ciphers that are no longer safe: for old servers."""

BROWSERS: Final = ("chrome", "firefox", "safari")
"""As that browser does it; needs the extra ``crawlstream[tls]``."""

PROFILES: Final = (DEFAULT, LEGACY, *BROWSERS)
"""All there are; which of them may be used is the operator's to say."""


def refusal(name: str, allowed: tuple[str, ...]) -> str:
    """Why a profile may not be used, as a sentence; empty if it may."""
    if name in allowed:
        return ""
    return (
        f"the TLS profile {name!r} is not allowed in this cluster; allowed: {', '.join(allowed)}"
        " (CRAWLSTREAM_TLS_PROFILES)"
    )
