"""Pages of the last hour that may answer further scrapes: by application, URL and kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from crawlstream.errors import InvalidUrl
from crawlstream.model.event import PageReply
from crawlstream.model.url import canonical
from crawlstream_frontier.scrapes.scrape_names import LASTING, ScrapeKind, kind_of

_KEPT = 20_000
"""Names by which pages are found: one by its own URL, one by the URL that has led to it."""


class RecentKey(NamedTuple):
    """Key of a page, equal for all scrapes that it may answer."""

    appid: str
    url: str
    """The identity of the URL."""
    kind: ScrapeKind


def recent_key(appid: str, url: str | None, kind: ScrapeKind) -> RecentKey | None:
    """Return the key of a page; None if no other scrape may have it."""
    if not url or kind is ScrapeKind.PRIVATE:
        return None
    try:
        return RecentKey(appid, canonical(url), kind)
    except InvalidUrl:
        return None


class Recents:
    """Finds the latest scrape with a page by its key."""

    def __init__(self, reply_of: Callable[[str], PageReply | None]) -> None:
        """``reply_of`` returns the reply about a scrape, if it is still kept."""
        self._reply_of = reply_of
        self._ids: OrderedDict[RecentKey, str] = OrderedDict()

    def note(self, reply: PageReply, asked: RecentKey | None) -> None:
        """Note a page that has come, also by what its client has asked for."""
        if reply.place is None or reply.status_code not in LASTING:
            return
        own = recent_key(reply.crawl.appid, reply.url, kind_of(reply.uuid))
        for key in filter(None, {own, asked}):
            self._ids[key] = reply.uuid
            self._ids.move_to_end(key)
        while len(self._ids) > _KEPT:
            self._ids.popitem(last=False)

    def find(self, key: RecentKey | None, not_before: float) -> PageReply | None:
        """Return the reply about a page that has come since a time in epoch seconds."""
        reply = self._reply_of(self._ids.get(key, "")) if key else None
        return reply if reply and reply.server_time >= not_before else None
