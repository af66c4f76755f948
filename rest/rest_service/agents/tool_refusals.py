"""Errors of REST, as sentences that a model can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.errors import CrawlstreamError

_LONGEST = 1_000
_AGAIN = "Try again later."
_NEVER = "The same call will be refused again."
_ADVICE: Mapping[str, str] = {
    "busy": _AGAIN,
    "forbidden": "The API key of this server does not permit it. " + _NEVER,
    "forbidden_appid": "Name one of these applications in `appid`.",
    "no_such_map": "Call `map` again without `id`.",
    "no_such_scrape": "Ids are valid for an hour: scrape the URL again.",
    "no_renderer": "Set `render` to false, or tell your user that a crawler with a browser must be"
    " started.",
    "no_worker": "Tell your user that a crawler must be started. Until then, " + _AGAIN.lower(),
    "site_blocked": _NEVER,
    "site_busy": "Its limit is not yours to change: wait, or take another site first.",
    "too_many_maps": "Wait until earlier lists are made.",
    "too_many_requests": _AGAIN,
    "too_many_scrapes": "Wait until earlier scrapes have ended.",
    "too_many_waiting": "Wait until earlier crawls have ended.",
    "unauthorized": "Tell your user to set CRAWLSTREAM_API_KEY to a valid key.",
    "unavailable": "The cluster does not answer at the moment. " + _AGAIN,
    "unknown_crawl": "`crawl_status` without `crawlid` lists the crawls that exist.",
}
"""Advice for a model, by code."""


class ToolRefused(CrawlstreamError):
    """The call of a tool failed; its text is for the model."""


def sentence_of(status: int, error: Mapping[str, Any], retry_after: str | None) -> str:
    """Return what was refused, why, and what to do about it; ``error`` as in REST's envelope."""
    code = str(error.get("code") or status)
    parts = [f"{error.get('message') or 'The REST service refused the request.'} [{code}]"]
    parts += [str(error["cause"])] if error.get("cause") else []
    parts += map(str, _some(error.get("errors")))
    parts += [_ADVICE[code]] if code in _ADVICE else []
    if retry_after and retry_after.isdecimal():
        parts.append(f"Wait at least {retry_after} s before you try again.")
    return " ".join(parts)[:_LONGEST]


def _some(errors: object) -> Sequence[object]:
    return errors[:10] if isinstance(errors, list) else ()
