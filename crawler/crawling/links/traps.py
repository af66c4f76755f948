"""Traps: sites that make up ever longer paths, by mistake or to keep crawlers busy."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

_ENDS_PATH = re.compile(r"[?#]")


@dataclass(frozen=True, slots=True)
class Traps:
    """Recognizes a trap by the shape of a URL's path; 0 switches a sign off."""

    max_segments: int
    max_repeats: int
    harmless: float = field(init=False)
    """Slashes that any absolute URL may have without being a sign of a trap."""

    def __post_init__(self) -> None:
        signs = [each for each in (self.max_segments, self.max_repeats) if each]
        object.__setattr__(self, "harmless", min(signs, default=math.inf) + 2)

    def refuses(self, url: str) -> str | None:
        """Return why an address is not followed: a reason under ``filtered``; None if it is.

        ``path_depth``: the path has more segments than any sane site. ``path_repeats``: one of
        them occurs too often, as when relative links pile up (``/a/b/a/b/a/b``).
        """
        if url.count("/") <= self.harmless:
            return None
        segments = [each for each in _ENDS_PATH.split(url, 1)[0].split("/")[3:] if each]
        if self.max_segments and len(segments) > self.max_segments:
            return "path_depth"
        if not self.max_repeats or len(segments) - len(set(segments)) < self.max_repeats:
            return None
        return "path_repeats" if max(Counter(segments).values()) > self.max_repeats else None


NO_TRAPS = Traps(max_segments=0, max_repeats=0)
"""Follows any path: a redirect's target, say."""
