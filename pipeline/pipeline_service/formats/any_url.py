"""Parts of URLs of any origin: a record whose URL no client accepts is archived, too."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit  # noqa: TID251  records may be of any origin

_PARTS = re.compile(r"[^:/?#]*://([^/?#]*)([^?#]*)\??([^#]*)")


def split_any(url: str) -> SplitResult:
    """Return the parts of a URL; of an invalid one, its host is all between ``//`` and ``/``."""
    try:
        return urlsplit(url)
    except ValueError:
        found = _PARTS.match(url)
        host, path, query = found.groups() if found else ("", "", "")
        return SplitResult("", host, path, query, "")
