"""``get --screenshot``: the picture of a page in a file."""

from __future__ import annotations

from pathlib import Path

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.model.delivered import Delivered
from crawlstream.store.bodies import stored_body

_WHY_NOT = {
    "bad_selector": "the CSS selector is not valid",
    "dropped": "the page asks for not being kept",
    "failed": "the page, or its browser, crashed",
    "moved": "a script of the page led elsewhere",
    "no_element": "no element matches, or it has no area",
    "no_room": "it did not fit in the record; CRAWLSTREAM_BODY_STORE makes room",
    "not_rendered": "the response is not HTML",
    "timeout": "the scripts of the page kept the browser busy",
    "too_large": "it has more than 4 MiB",
}
"""Explanations of the ``error`` in a result."""


class NoScreenshot(CrawlstreamError):
    """The page has no screenshot; the text has the reason."""


def check_picture(file: Path | None, part: str | None) -> str | None:
    """Return the part of the page that is wanted as a picture; None: none is. ConfigError."""
    if file is None:
        if part:
            raise ConfigError("--screenshot-of needs --screenshot FILE")
        return None
    if file.suffix.lower() != ".png":
        raise ConfigError(f"--screenshot {file}: it is a PNG, so its name must end in .png")
    return part or "viewport"


def write_picture(settings: Settings, page: Delivered, file: Path) -> str:
    """Write the picture of a page to a file; return a sentence about it.

    Raise NoScreenshot, or CrawlstreamError if it cannot be read or written.
    """
    told = page.screenshot or {"error": "not_rendered"}
    if "error" in told:
        error = str(told["error"])
        raise NoScreenshot(
            f"no screenshot: {error}: {_WHY_NOT.get(error, 'see docs/rendering.md')}"
        )
    png = page.screenshot_body or stored_body(settings.body_store, told.get("sha256"))
    if png is None:
        raise CrawlstreamError(
            f"the screenshot is at {told.get('ref')}: set CRAWLSTREAM_BODY_STORE as for crawlers"
        )
    try:
        file.write_bytes(png)
    except OSError as error:
        raise CrawlstreamError(f"cannot write to {file}: {error.strerror}") from error
    cut = ", cut" if told.get("truncated") else ""
    return f"{file}: {told.get('width')} x {told.get('height')} pixels{cut}, {len(png)} bytes"
