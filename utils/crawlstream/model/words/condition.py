"""Condition of a crawl: its state in a few words, and why it does not get on or brought nothing.

Commands, REST and the dashboard say the same of a crawl. ``spiders`` are those of the running
crawlers; None: they are not known.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from crawlstream.model.state import CrawlState
from crawlstream.model.words.quantities import by_reason, duration

Spiders = Collection[str] | None

IF_MISSPELT = "If the name is wrong, stop the crawls that wait for it."
_REST_S = 30.0
"""A shorter time without a page says nothing about the pace."""


def badge(crawl: CrawlState, spiders: Spiders) -> str:
    """Return its state, ``waiting: no crawler of SPIDER`` or ``finished: nothing fetched (dns 1)``.

    The first word, up to a colon, is the kind of its state.
    """
    if lacking := waits_for(crawl, spiders):
        return no_crawler_of(*lacking)
    if is_fruitless(crawl):
        return f"{crawl.state}: nothing fetched{_why(crawl)}"
    return crawl.state


def problem(crawl: CrawlState, spiders: Spiders) -> str:
    """Return a sentence on what a person should know or do about it; "": nothing."""
    if lacking := waits_for(crawl, spiders):
        pages = "1 page waits" if crawl.pending == 1 else f"{crawl.pending:,} pages wait"
        return f"{absence(*lacking, spiders=spiders)}, so {pages}"
    if is_fruitless(crawl):
        return f"No page was fetched{_why(crawl)}"
    blocked = crawl.held_back.get("blocked", 0)
    if blocked and blocked == crawl.pending and not crawl.held:
        return "Nothing is fetched: the rules of all its domains allow no request"
    return ""


def waits_for(crawl: CrawlState, spiders: Spiders) -> Collection[str]:
    """Return the spiders whose crawlers it waits for, as none of them runs."""
    return () if spiders is None else crawl.lacking(spiders)


def pace(ended: int, *, left: int, took_s: float, idle_s: float) -> str:
    """Return the pages per second of a run so far, and how long the rest takes at that pace.

    ``idle_s``: since the last page. A run that rests for longer than that has no such pace.
    """
    if not ended or took_s <= 0:
        return "no page yet"
    rate = ended / took_s
    if not left:
        return f"{rate:,.2f} pages/s"
    if idle_s > max(left / rate, _REST_S):
        return f"{rate:,.2f} pages/s so far, none for {duration(idle_s)}"
    return f"{rate:,.2f} pages/s, about {duration(left / rate)} left"


def is_fruitless(crawl: CrawlState) -> bool:
    """Return whether it came to its own end without a page."""
    return crawl.state in {"finished", "expired"} and not crawl.done


def no_crawler_of(*spiders: str) -> str:
    """Return the badge of a crawl that waits for a crawler."""
    return f"waiting: no crawler of {' or '.join(spiders)}"


def absence(*lacking: str, spiders: Spiders) -> str:
    """Return that no crawler of a spider is running, and which are; without a full stop."""
    running = ", ".join(sorted(filter(None, spiders or ()))) or "none"
    near = get_close_matches(lacking[0], [*(spiders or ())], n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"No crawler of spider {' or '.join(lacking)} is running (running: {running}{meant})"


def _why(crawl: CrawlState) -> str:
    """Return the reasons for which nothing was fetched, in brackets; "" if none is known."""
    told = by_reason(crawl.failed_by_reason or crawl.skipped_by_reason or crawl.filtered_by_reason)
    return f" ({told})" if told else ""
