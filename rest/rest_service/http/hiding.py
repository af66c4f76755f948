"""Secrets of clients and sites are hidden: names of headers are shown, their values are not.

A result repeats the headers of its request, and a rejected record is the request as received.
Permission to read pages does not include the account that they were fetched with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crawlstream.wire.delivered import head_without

HIDDEN = "(hidden)"
_SECRET = re.compile(
    r"cookie|auth|token|secret|passw|session|credential|signature|csrf|xsrf|api-?key|access-?key",
    re.IGNORECASE,
)
"""Names of headers that carry credentials."""

SECRET_FIELDS = frozenset({"cookie", "cookies", "headers", "body"})
"""Fields of a request that may carry credentials."""


def hide(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of any topic without credentials."""
    shown = dict(value)
    for name in ("request_headers", "response_headers"):
        if isinstance(headers := shown.get(name), dict):
            shown[name] = {one: _hidden(one, told) for one, told in headers.items()}
    if isinstance(sent := shown.get("as_sent"), dict):
        head = sent.get("head")
        bare = head_without(head, _SECRET.search) if isinstance(head, str) else HIDDEN
        shown["as_sent"] = sent | {"head": bare}
    if shown.get("raw"):
        shown |= {"raw": None, "raw_hidden": True}
    return shown


def hide_seeds(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schedule, or the reply about one, without the secrets of its seeds' requests."""
    shown = dict(value)
    if isinstance(crawl := shown.get("crawl"), dict):
        shown["crawl"] = _without(crawl)
    if isinstance(seeds := shown.get("seeds"), list | tuple):
        shown["seeds"] = [_without(one) if isinstance(one, dict) else one for one in seeds]
    return shown


def _without(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: HIDDEN if name in SECRET_FIELDS else told for name, told in request.items()}


def _hidden(name: str, told: object) -> object:
    if not _SECRET.search(name):
        return told
    return [HIDDEN] * len(told) if isinstance(told, list) else HIDDEN
