"""Spans, and the trace that a page belongs to.

The id of a page's trace is the ``id`` of the page, so every process knows it, and it stays when the
page is fetched again after a crash. If the client of a seed sends a sampled ``traceparent``, the
seed belongs to the client's trace instead, and its entry stores the header, and when it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from crawlstream.model.crawl import Entry

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
)
_SHOWN = re.compile(r"(https?://)(?:[^/?#]*@)?([^?#]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A finished span; times are epoch nanoseconds."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    """Empty: it is the first of its trace."""
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    error: str = ""
    """Reason code, if it has failed."""


class SpanPlace(NamedTuple):
    """Trace and span below which a span belongs."""

    trace_id: str
    span_id: str
    """Empty: the trace begins here."""


def parent_in(traceparent: str) -> SpanPlace | None:
    """Return the span of a client by its header; None if it is not valid, or not sampled."""
    found = _TRACEPARENT.fullmatch(traceparent)
    is_sampled = found is not None and int(found[3], 16) & 1
    return SpanPlace(found[1], found[2]) if found and is_sampled else None


class StoredTrace(NamedTuple):
    """Trace of a client, as the entry of its seed stores it."""

    parent: SpanPlace
    came_ms: int
    """Epoch milliseconds at which kafka-monitor read the seed."""


def stored_trace(traceparent: str, came_ms: int) -> str:
    """Return what the entry of a seed stores of its client's sampled trace."""
    return f"{traceparent} {came_ms}"


def trace_in(stored: str | None) -> StoredTrace | None:
    """Return the trace that an entry stores; None: it has none, or none that is valid."""
    traceparent, _, came_ms = (stored or "").partition(" ")
    parent = parent_in(traceparent)
    return StoredTrace(parent, int(came_ms)) if parent and came_ms.isdecimal() else None


def traceparent_of(trace_id: str, span_id: str) -> str:
    """Return the header ``traceparent`` of a sampled span."""
    return f"00-{trace_id}-{span_id}-01"


def is_in_share(trace_id: str, share: float) -> bool:
    """Return whether a trace is one of a share: by its last 64 bits, as OpenTelemetry decides."""
    return int(trace_id[16:], 16) < share * 2**64


def span_id_of(*names: str) -> str:
    """Return the id of a span that is derived from names: 64 bits of a hash, as hex."""
    return blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def intake_id(trace_id: str, origin: str) -> str:
    """Return the id of the span ``intake`` of a seed, by the ``origin`` of its entry."""
    return span_id_of(trace_id, "intake", origin)


def place_of_page(page_id: str, entry: Entry, share: float) -> SpanPlace | None:
    """Return the place of a page's spans; None if the page is not sampled.

    The target of a redirect is a page with an ``id`` of its own. It stays in a client's trace.
    """
    if stored := trace_in(entry.trace):
        trace_id, parent_id = stored.parent
        return SpanPlace(trace_id, intake_id(trace_id, entry.origin) if entry.origin else parent_id)
    if not is_in_share(page_id, share):
        return None
    is_seed = entry.origin is not None and not entry.redirect_urls
    return SpanPlace(page_id, intake_id(page_id, entry.origin or "") if is_seed else "")


def shown_url(url: str) -> str:
    """Return a URL without what could be secret: query, fragment, user and password."""
    found = _SHOWN.match(url)
    return found[1] + found[2] if found else ""
