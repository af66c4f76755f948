"""Canonical URL that a page names: ``Link: <…>; rel=canonical`` or ``<link rel=canonical>``.

Sources: https://www.rfc-editor.org/rfc/rfc6596 and https://www.rfc-editor.org/rfc/rfc8288.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from crawlstream.model.web.address import MAX_URL_LENGTH, resolved, without_fragment

_LONGEST_HEADER = 16 * 1024
"""Bytes of all ``Link`` headers that are read."""
_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LINK = re.compile(rb"<([^<>]*+)>((?:[^,<\"]++|" + _QUOTED + rb")*+)", re.DOTALL)
_PARAMETER = re.compile(
    rb";[ \t]*+([A-Za-z0-9*_-]++)[ \t]*+=[ \t]*+(" + _QUOTED + rb"|[^\s;,\"]++)", re.DOTALL
)


def canonical_of(
    url: str, headers: Sequence[bytes], base: str, elements: Iterable[str]
) -> str | None:
    """Return the canonical URL that a page at ``url`` names, without fragment; None if its own.

    ``headers`` are its ``Link`` headers, the first of which that names one is decisive; then the
    first of ``elements`` is: references relative to ``base``. A URL that cannot be crawled, or that
    has more than 2083 characters, is none.
    """
    reference: bytes | str | None = _in_headers(headers)
    if reference is not None:
        found = resolved(url, reference)
    else:
        reference = next(iter(elements), None)
        found = None if reference is None else resolved(base, reference)
    if found is None:
        return None
    found = without_fragment(found)
    return None if len(found) > MAX_URL_LENGTH or found == without_fragment(url) else found


def is_canonical(rel: str | None) -> bool:
    """Return whether a value of ``rel`` is that of a canonical link."""
    return rel is not None and "canonical" in rel.lower().split()


def _in_headers(headers: Sequence[bytes]) -> bytes | None:
    left = _LONGEST_HEADER
    for header in headers:
        for link in _LINK.finditer(header[:left]):
            if _says_canonical(link[2]):
                return link[1].strip()
        left -= len(header)
        if left <= 0:
            return None
    return None


def _says_canonical(parameters: bytes) -> bool:
    """Return whether a link is a canonical one of the page itself; the first ``rel`` counts."""
    values: dict[bytes, str] = {}
    for parameter in _PARAMETER.finditer(parameters):
        values.setdefault(parameter[1].lower(), parameter[2].strip(b'"').decode("latin-1"))
    return b"anchor" not in values and is_canonical(values.get(b"rel"))
