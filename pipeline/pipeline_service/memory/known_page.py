"""State of a page, and its state after news: pure functions."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

from pipeline_service.memory.seen import Seen, Sight
from pipeline_service.spec.rule import DAY_S, NOTHING, Experience, IntervalRule

GONE_AFTER = 2
"""Number of answers in a row that the page is not there, after which it counts as gone."""
WHOLE_EVERY = 10
"""Visits between two fetches without validators, which check that the validators are right."""
_RETRY_S, _LONGEST_RETRY_S = 3_600.0, 7 * DAY_S
_MOST_DOUBLINGS = 20
_MOVED_TIMES = 4.0
"""Factor of the interval for a page that only redirects to another one."""
_SPREAD = 0.05
"""Share of an interval, to either side, so that pages fed at once do not stay together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """A page of the memory; times are epoch seconds."""

    key: str
    appid: str
    url: str
    domain: str
    spiderid: str
    status: int | None = None
    """Status of the last answer; None: there was none."""
    signature: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    first_seen: float
    last_seen: float
    """Last time that the page existed."""
    last_heard: float
    """Time of the last answer or failure."""
    last_changed: float | None = None
    """Last time that it was found changed, gone, or back."""
    visits: int = 0
    """Number of times that it existed, after the first."""
    changes: int = 0
    """Visits that have found a change."""
    experience: Experience = NOTHING
    fails: int = 0
    """Consecutive failures."""
    gone: int = 0
    """Consecutive answers that it does not exist."""
    is_liar: bool = False
    """True if its validators have stayed though the page has changed."""
    pace: int = 0
    least_s: float = 0.0
    most_s: float = 0.0
    interval_s: float = 0.0
    next_visit: float = 0.0
    asked: int = 0
    """Visits in a row without news."""
    last_id: str = ""
    """Id of the last record with news of the page."""
    items: Any = None
    """List of what the stages made of it last, or its JSON; None: nothing yet, or not kept."""
    items_before: Any = None
    """Items before its last change."""

    @property
    def is_gone(self) -> bool:
        """Return whether it is not there any more."""
        return self.gone >= GONE_AFTER

    @property
    def validators(self) -> tuple[str | None, str | None]:
        """ETag and Last-Modified to ask for it with; None: it is to come whole."""
        if self.is_liar or self.signature is None or self.visits % WHOLE_EVERY == WHOLE_EVERY - 1:
            return None, None
        return self.etag, self.last_modified


def is_news(page: KnownPage | None, seen: Seen) -> bool:
    """Return whether a record says anything later than what is known."""
    return page is None or seen.at > page.last_heard


def learn(page: KnownPage | None, seen: Seen, rule: IntervalRule) -> KnownPage | None:
    """Return the state after news; None: of an unknown page that does not enter by this news."""
    if page is None:
        return _first(seen, rule) if seen.enters else None
    heard: dict[str, Any] = {
        "status": seen.status,
        "last_heard": seen.at,
        "last_id": seen.id,
        "asked": 0,
    }
    page = replace(page, **heard)
    match seen.sight:
        case Sight.THERE | Sight.UNMODIFIED:
            return _visited(page, seen, rule)
        case Sight.GONE:
            return _gone(page, seen, rule)
        case Sight.MOVED:
            page = replace(page, fails=0, gone=0, etag=None, last_modified=None)
            return _planned(page, seen, rule, times=_MOVED_TIMES)
        case Sight.FAILED:
            fails = page.fails + 1
            pause_s = min(_RETRY_S * 2 ** min(fails, _MOST_DOUBLINGS), _LONGEST_RETRY_S)
            return _at(replace(page, fails=fails), seen, pause_s)


def _first(seen: Seen, rule: IntervalRule) -> KnownPage:
    page = KnownPage(
        key=seen.key,
        appid=seen.appid,
        url=seen.url,
        domain=seen.domain,
        spiderid=seen.spiderid,
        status=seen.status,
        signature=seen.signature,
        etag=seen.etag,
        last_modified=seen.last_modified,
        items=seen.items or None,
        first_seen=seen.at,
        last_seen=seen.at,
        last_heard=seen.at,
        last_id=seen.id,
    )
    return _planned(page, seen, rule)


def _visited(page: KnownPage, seen: Seen, rule: IntervalRule) -> KnownPage:
    """Return a page that is there: whether it has changed updates its rate of change."""
    is_whole = seen.sight is Sight.THERE
    changed = is_whole and page.signature not in (None, seen.signature)
    has_old = (seen.etag or seen.last_modified) is not None and (
        seen.etag == page.etag if seen.etag else seen.last_modified == page.last_modified
    )
    experience = page.experience.after(changed=changed, span_s=seen.at - page.last_seen)
    page = replace(
        page,
        spiderid=seen.spiderid,
        signature=seen.signature if is_whole else page.signature,
        etag=seen.etag if is_whole else seen.etag or page.etag,
        last_modified=seen.last_modified if is_whole else seen.last_modified or page.last_modified,
        last_seen=seen.at,
        last_changed=seen.at if changed or page.is_gone else page.last_changed,
        visits=page.visits + 1,
        changes=page.changes + changed,
        experience=experience,
        fails=0,
        gone=0,
        is_liar=page.is_liar or (changed and has_old),
        items=_items_after(page, seen),
        items_before=page.items if changed else page.items_before,
    )
    return _planned(page, seen, rule)


def _items_after(page: KnownPage, seen: Seen) -> Any:
    """Return the items to keep; a page that has never had any keeps none."""
    if seen.items is None or not (seen.items or page.items is not None):
        return page.items
    return seen.items


def _gone(page: KnownPage, seen: Seen, rule: IntervalRule) -> KnownPage:
    """Asked once more soon, then as seldom as is allowed."""
    page = replace(page, fails=0, gone=page.gone + 1, etag=None, last_modified=None)
    if page.gone == GONE_AFTER:
        page = replace(page, last_changed=seen.at)
    bounds = rule.bounds_of(page.url, page.domain)
    pause_s = bounds.most_s if page.is_gone else min(_RETRY_S, page.interval_s)
    return _at(page, seen, pause_s)


def _planned(page: KnownPage, seen: Seen, rule: IntervalRule, times: float = 1.0) -> KnownPage:
    """With the time of its next visit, by how often it changes."""
    bounds = rule.bounds_of(page.url, page.domain)
    rate = page.experience.rate(bounds.least_s)
    interval_s = bounds.keep(rule.interval_s(rate, bounds) * times)
    pace = rule.pace(rate)
    page = replace(page, pace=pace, least_s=bounds.least_s, most_s=bounds.most_s)
    if rule.clock is not None:
        next_visit = rule.clock.next_time(seen.at, times)
        return replace(page, interval_s=next_visit - seen.at, next_visit=next_visit)
    return _at(replace(page, interval_s=interval_s), seen, interval_s)


def _at(page: KnownPage, seen: Seen, pause_s: float) -> KnownPage:
    # Equal for equal records, so that a repetition has an equal result.
    share = zlib.crc32(seen.id.encode("utf-8", "replace")) % 1024 / 1023
    return replace(page, next_visit=seen.at + pause_s * (1 - _SPREAD + 2 * _SPREAD * share))
