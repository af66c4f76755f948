"""Screenshots in answers to scrapes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError
from crawlstream.model.delivered import Delivered
from crawlstream.store.bodies import stored_body
from crawlstream.store.store import StoreUnavailable

MOST_BYTES = 6 * 1024 * 1024
"""Bytes of the largest screenshot, as base64."""


async def screenshot_in(
    settings: Settings, page: Delivered
) -> tuple[Mapping[str, object] | None, Sequence[str]]:
    """Return the screenshot of a page with its ``body``, base64 of a PNG, and the problems.

    If this process cannot read the body store, there is only the ``ref``.
    """
    told = page.screenshot
    if told is None or "error" in told:
        return None, [f"screenshot: {(told or {}).get('error', 'not_taken')}"]
    png = await picture_of(settings, told, page.screenshot_body)
    if png is None:
        return told, ["screenshot: unreachable"]
    return {**told, "body": base64.b64encode(png).decode()}, []


async def picture_of(
    settings: Settings, told: Mapping[str, object], body: bytes | None
) -> bytes | None:
    """Return the PNG of a page, from its record or the body store; None: it is in neither."""
    if body is not None:
        return body
    try:
        return await asyncio.to_thread(stored_body, settings.body_store, told.get("sha256"))
    except (ConfigError, StoreUnavailable):
        return None
