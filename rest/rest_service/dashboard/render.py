"""Templates, and the formatting of values in them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from urllib.parse import urlencode

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from crawlstream.called import COMMAND
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule
from crawlstream.model.words.condition import badge
from crawlstream.model.words.quantities import duration, size
from crawlstream.wire import jsontext
from crawlstream.wire.views import why_next
from rest_service.http.access import Client, is_of_applications

SCREENS = (
    ("/", "Cluster"),
    ("/ui/crawls", "Crawls"),
    ("/ui/schedules", "Schedules"),
    ("/ui/pipelines", "Pipelines"),
    ("/ui/domains", "Domains"),
    ("/ui/proxies", "Proxies"),
    ("/ui/purses", "Purses"),
    ("/ui/rejected", "Rejected"),
    ("/ui/processes", "Processes"),
    ("/ui/submit", "Start a crawl"),
)
_OF_APPLICATIONS = [one for one in SCREENS[1:] if is_of_applications(one[0])]
SHOWN = 100
"""Rows of a table, at most."""
PAUSES = ((900, "15 minutes"), (3_600, "an hour"), (86_400, "a day"))
"""Choices for the length of a pause, in seconds."""
LONGEST_TEXT = 2_000
_LONG_MS = 90_000


def crawl_path(state: CrawlState, screen: str = "/ui/crawl", **more: str) -> str:
    """Return the address of a screen about one crawl."""
    return path_of(state.crawl, screen, **more)


def path_of(key: CrawlKey, screen: str = "/ui/crawl", **more: str) -> str:
    """Return the address of a screen about the crawl of these ids."""
    ids = {"appid": key.appid, "crawlid": key.crawlid, "spiderid": key.spiderid}
    return f"{screen}?{urlencode(ids | more)}"


def past(at: float) -> str:
    """Return the time since a moment: ``42 s``, ``14 min``, ``2 h 5 min``."""
    return duration(time.time() - at)


def ahead(at: float) -> str:
    """Return the time until a moment, in the form of ``past``."""
    return duration(at - time.time())


def moment(at: float) -> str:
    """Return a date and time in UTC; a number if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{at:.0f} s after 1970"


def span(ms: float) -> str:
    """Return a length of time as text."""
    if ms >= _LONG_MS:
        return duration(ms / 1000)
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _short(number: float) -> str:
    """Return three digits, or all of them before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def effect(rule: ThrottleRule, waiting: int = 0) -> str:
    """Return the rate that a rule allows, and how long waiting pages take at it."""
    hits = rule.effective_hits
    if not hits:
        return "nothing is fetched"
    if rule.is_paused:
        return f"nothing is fetched for {ahead(rule.paused_until)}"
    rate = hits / rule.window_s
    told = f"{_short(rate)} requests/s" if rate >= 1 else f"a request each {1 / rate:.3g} s"
    pages = f"{waiting:,} page{'s' * (waiting != 1)}"
    return f"{told}; {pages} in {span(1000 * waiting / rate)}" if waiting else told


def shown(value: object) -> str:
    """Return any value of a record as text, cut to a length; a list has a line for each item."""
    if isinstance(value, list):
        return "\n".join(map(shown, value))[:LONGEST_TEXT]
    if isinstance(value, dict):
        value = jsontext.dumps(value).decode()
    return "" if value is None else str(value)[:LONGEST_TEXT]


_templates = Environment(
    loader=PackageLoader("rest_service.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["quantity"] = _short
_templates.globals.update(
    COMMAND=COMMAND,
    PAUSES=PAUSES,
    ahead=ahead,
    badge=badge,
    crawl_path=crawl_path,
    effect=effect,
    moment=moment,
    past=past,
    path_of=path_of,
    rule_fields=RULE_FIELDS,
    shown=shown,
    size=size,
    span=span,
    why_next=why_next,
)


def render(
    template: str, here: str = "", *, client: Client, status: int = 200, **values: object
) -> Response:
    """Return a screen as HTML; ``here`` is the one of ``SCREENS`` that it belongs to."""
    text = _templates.get_template(template).render({"here": here, **_of(client), **values})
    return HTMLResponse(text, status_code=status)


def render_live(template: str, *, client: Client, **values: object) -> str:
    """Return the live part of a screen."""
    found = _templates.get_template(template)
    context = found.new_context({"here": "", **_of(client), **values})
    return "".join(found.blocks["live"](context))


def _of(client: Client) -> dict[str, object]:
    """Return the common values of screens for a client, with the screens that it may open.

    ``said`` is the outcome of a form; ``typed`` is the input of a form that is shown again, and
    ``wrong`` its problems, both by field.
    """
    is_bound = bool(client.appids)
    screens = _OF_APPLICATIONS if is_bound else SCREENS
    return {"screens": screens, "is_bound": is_bound, "said": "", "typed": {}, "wrong": {}}
