"""Pictures of pages that are ready: bounded in pixels, bytes and time, whatever the page does.

A page has been read when its picture is taken, so that a failure here costs the picture alone.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from crawling.page.page import Screenshot
from crawling.render.cdp import BrowserGone, CommandFailed, Pipe
from crawling.render.document import Document
from crawling.render.script import element_at

WINDOW: Mapping[str, object] = {
    "width": 1280,
    "height": 800,
    "deviceScaleFactor": 1,
    "mobile": False,
}
"""Window of pages with a screenshot, in pixels."""
TYPES = frozenset({"image", "font"})
"""Types that such pages load, too, where the operator has not set any."""
_ELEMENT = "element:"
_MOST_PIXELS = 8_000_000
_LONGEST_SIDE = 16_000
_MOST_BYTES = 4 * 1024 * 1024
_TAKE_S = 8.0
"""Seconds for a picture."""
_SIZE = struct.Struct(">16x2L")
"""Beginning of a PNG: its width and height."""


class NoPicture(Exception):
    """There is no picture; the text is the ``error`` of the result."""


class Clip(NamedTuple):
    """Part of a page, in pixels from its upper left corner."""

    x: int
    y: int
    width: int
    height: int
    is_cut: bool = False
    """True if the lower or right part of what was wanted is missing."""

    @classmethod
    def of(cls, x: float, y: float, width: float, height: float) -> Clip:
        """Return a clip within the bounds of a picture; raise NoPicture for an empty one."""
        if width <= 0 or height <= 0:
            raise NoPicture("no_element")
        wide, high = math.ceil(min(width, _LONGEST_SIDE)), math.ceil(min(height, _LONGEST_SIDE))
        high = min(high, _MOST_PIXELS // wide)
        is_cut = wide < width or high < height
        return cls(max(0, math.floor(x)), max(0, math.floor(y)), wide, high, is_cut)

    def with_part(self, share: float) -> Clip:
        """Return a clip with only this share of its height, from the top."""
        return self._replace(height=max(1, int(self.height * share)), is_cut=True)


@dataclass(frozen=True, slots=True)
class Camera:
    """Takes the picture of one page."""

    pipe: Pipe
    session: str
    document: Document
    loader: str
    """The browser's name for the document: no picture shows another one."""

    async def take(self, part: str, turn: asyncio.Lock) -> Screenshot:
        """Return the picture of a part of the page; see `RenderOptions.screenshot`."""
        try:
            async with turn, asyncio.timeout(_TAKE_S):
                png, clip = await self._taken(part)
                await self._check_document()
        except NoPicture as reason:
            return Screenshot({"error": str(reason)})
        except TimeoutError:
            return Screenshot({"error": "timeout"})
        except (BrowserGone, CommandFailed):
            return Screenshot({"error": "failed"})
        width, height = _SIZE.unpack_from(png)
        told: dict[str, object] = {
            "width": width,
            "height": height,
            "size": len(png),
            "sha256": hashlib.sha256(png).hexdigest(),
        }
        return Screenshot({**told, **({"truncated": True} if clip and clip.is_cut else {})}, png)

    async def _taken(self, part: str) -> tuple[bytes, Clip | None]:
        clip = await self._clip(part)
        png = await self._capture(clip)
        if clip and len(png) > _MOST_BYTES:
            clip = clip.with_part(0.9 * _MOST_BYTES / len(png))
            png = await self._capture(clip)
        if len(png) > _MOST_BYTES:
            raise NoPicture("too_large")
        return png, clip

    async def _clip(self, part: str) -> Clip | None:
        """Return what is to be seen; None: what the window shows."""
        if part.startswith(_ELEMENT):
            found = await self.document.run(element_at(part.removeprefix(_ELEMENT)))
            if not isinstance(found, list):
                raise NoPicture("bad_selector" if found is None else "no_element")
            return Clip.of(*found)
        if part == "full":
            metrics = await self.pipe.begin_call("Page.getLayoutMetrics", self.session)
            size = metrics["cssContentSize"]
            return Clip.of(0, 0, size["width"], size["height"])
        return None

    async def _capture(self, clip: Clip | None) -> bytes:
        options: dict[str, Any] = {"format": "png", "optimizeForSpeed": True}
        if clip:
            options["captureBeyondViewport"] = True
            options["clip"] = {
                "x": clip.x,
                "y": clip.y,
                "width": clip.width,
                "height": clip.height,
                "scale": 1,
            }
        told = await self.pipe.begin_call("Page.captureScreenshot", self.session, **options)
        return base64.b64decode(told["data"])

    async def _check_document(self) -> None:
        """Raise NoPicture if a script has led to another document meanwhile."""
        told = await self.pipe.begin_call("Page.getFrameTree", self.session)
        if told["frameTree"]["frame"]["loaderId"] != self.loader:
            raise NoPicture("moved")
