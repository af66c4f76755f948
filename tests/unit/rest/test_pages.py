"""The dashboard's pages as HTML: hostile text is seen, never run."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport
from crawlstream.model.process import Process
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.throttle import ThrottleRule
from rest_service.dashboard import cluster, crawls
from rest_service.dashboard.render import (
    crawl_path,
    duration,
    moment,
    render,
    render_live,
    volume,
)
from rest_service.http.access import Client, Role
from rest_service.http.gate import SECURITY_HEADERS
from rest_service.v2.records import as_csv
from support.hostile_texts import SCRIPTS

OWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "img", "nav"),
    *("main", "noscript", "p", "h1", "h2", "section", "div", "dl", "dt", "dd", "table", "thead"),
    *("tbody", "tr", "th", "td", "span", "form", "input", "label", "button", "select", "textarea"),
    *("option", "svg", "rect", "ul", "li", "i", "small", "strong", "pre", "dialog", "figure"),
    *("figcaption", "output"),
}


class Seen(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, its text."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def hostile_crawl(text: str) -> CrawlState:
    """A crawl in which a stranger chose every text."""
    waiting = ("queued", "delayed", "held", "done", "failed", "redirected")
    counts: dict[str, Any] = dict.fromkeys(waiting, 1)
    return CrawlState(
        crawl=CrawlKey(text, text, text),
        run=1,
        state=text,
        started_at=0,
        last_activity=0,
        expires=0,
        admitted=8,
        stopped=1,
        expired=1,
        failed_by_reason={text: 1},
        filtered_by_reason={text: 1},
        done_by_status={text: 1},
        domains=[DomainBacklog(domain=text, total=1, high_priority=1, low_priority=1)],
        **counts,
    )


def _row(text: str) -> cluster.DomainRow:
    zero: dict[str, Any] = dict.fromkeys(
        (*("unreported", "under_way", "not_before_ms", "next_ms", "strikes", "silences"),), 0
    )
    report = DomainReport(
        domain=text,
        hits=1,
        window_s=1,
        is_moderated=True,
        concurrency=1,
        unanswered_ms=0,
        crawl_delay_ms=0,
        queues=[],
        **zero,
    )
    rule = ThrottleRule(hits=1, window_s=1)
    return cluster.DomainRow(name=text, source="own", rule=rule, report=report)


def _values(text: str) -> dict[str, dict[str, Any]]:
    """What each template is filled with where a stranger chose every text."""
    one = hostile_crawl(text)
    page = dict.fromkeys(("url", "parent", "body_size", "errors", "reason", "topic"), text)
    record = {"partition": 0, "offset": 1, "at_ms": 0, "key": text, "value": page}
    process = Process(kind=text, spider=text, host=text, version=text)
    reach = SimpleNamespace(kafka=True, redis=False)
    paths = {"next_path": "/x", "csv_path": "/y", "jsonl_path": "/z"}
    return {
        "crawl.html": {
            "one": one,
            "ledger": [("done", 1)],
            "domains": [(domain, None) for domain in one.domains],
            "left": 1,
            "steering": crawls._BUTTONS["running"],
        },
        "crawls.html": {
            "appid": text,
            "state": text,
            "states": [text],
            "total": 1,
            "crawls": [one],
            "problems": [text],
        },
        "overview.html": {
            "problems": [text],
            "figures": [(text, text, text)],
            "crawls": [one],
            "kinds": [(text, 1)],
        },
        "failures.html": {
            "one": one,
            "reasons": [(text, crawls.Reason(1, [page]))],
            **paths,
        },
        "pages.html": {"one": one, "records": [record], **paths},
        "page.html": {"fields": [(text, [text]), ("x", {text: 1})], "body": text, "is_cut": True},
        "rejected.html": {"records": [record], **paths},
        "rejected_one.html": {
            "record": record,
            "fields": [(text, text)],
            "errors": [text],
            "text": text,
            "is_hidden": False,
            "can_be_replayed": True,
        },
        "domains.html": {
            "name": text,
            "problems": [text],
            "rows": [_row(text)],
            "left": 1,
            "default": ThrottleRule(hits=1, window_s=1),
        },
        "processes.html": {"processes": [process], "reach": reach},
        "submit.html": {"fresh_id": text, "appid": text},
        "problem.html": {"code": text, "message": text},
    }


OPERATOR = Client("somebody", Role.OPERATE)
BOUND = Client("somebody", Role.READ, appids=frozenset({"shop"}))


@pytest.mark.parametrize("template", list(_values("")))
@pytest.mark.parametrize("text", SCRIPTS[6:16])
@pytest.mark.parametrize("client", [OPERATOR, BOUND], ids=["operator", "bound"])
def test_hostile_text_is_shown_as_text(text: str, template: str, client: Client) -> None:
    """No text makes an element, a handler or an address; it can be read as it was written."""
    page = bytes(render(template, client=client, **_values(text)[template]).body)
    seen = Seen(page)
    assert {tag for tag, _ in seen.elements} <= OWN_TAGS
    sources = {attributes.get("src") for tag, attributes in seen.elements if tag == "script"}
    assert sources <= {"/static/live.js", "/static/uplot/uPlot.iife.min.js"}
    for tag, attributes in seen.elements:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert "style" not in attributes
        for name in ("href", "src", "action", "data-api"):
            address = attributes.get(name) or "/"
            assert address.startswith(("/", "#")), (tag, attributes)
            assert not address.startswith("//")
    values = [value for _, attributes in seen.elements for value in attributes.values()]
    assert text in seen.text or text in values


@pytest.mark.parametrize(
    "template", ["crawl.html", "crawls.html", "overview.html", "domains.html", "processes.html"]
)
def test_the_live_part_is_that_of_the_page(template: str) -> None:
    """What the stream sends is what stands in the page, so nothing jumps when it begins."""
    values = _values("plain")[template]
    live = render_live(template, client=OPERATOR, **values).strip()
    assert live
    assert live in bytes(render(template, client=OPERATOR, **values).body).decode()


def test_scripts_come_from_here_only() -> None:
    """The policy lets nothing run that is not a file of ours, and no page frames another."""
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("begin", ["", " ", "\t", "\r", "\n", "\xa0", "\ufeff", "\u200b \n"])
@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1", "@x", '=HYPERLINK("x")'),
        *("\uff1d1", "\uff0b1", "\uff0d1", "\uff20x"),
    ],
)
def test_no_cell_is_a_formula(text: str, begin: str) -> None:
    """A spreadsheet shows what a stranger wrote, and does not compute it."""
    hostile = begin + text
    cells = [hostile, 'a"b,c\n', None, 7, -7]
    table = list(csv.reader(io.StringIO(as_csv([cells]).decode(), newline="")))
    assert table[0][1:] == ['a"b,c\n', "", "7", "-7"]
    assert table[0][0].startswith("'")
    assert table[0][0].replace("'", "") == hostile


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("end", ["=1+1", '"=1+1', " +1", "\uff1d1", '"" @x'])
def test_no_cell_is_one_where_others_end_it(separator: str, end: str) -> None:
    """A spreadsheet that separates cells by other characters finds no formula of a stranger's."""
    text = f'http://evil.test/x"{separator}{end}'
    rows = as_csv([[text, text, None], [f"a\n{end}", f'"\r\n{end}']]).decode()
    for row in csv.reader(io.StringIO(rows, newline=""), delimiter=separator):
        assert not [cell for cell in row if cell.strip(' "').startswith(("=", "+", "@", "\uff1d"))]


def test_a_key_for_applications_is_led_to_their_screens_only() -> None:
    """Screens about the whole cluster, and links to them, are not shown to it."""
    values = _values("plain")["crawl.html"]
    page = bytes(render("crawl.html", "/ui/crawls", client=BOUND, **values).body)
    links = {attributes.get("href") or "" for tag, attributes in Seen(page).elements if tag == "a"}
    assert "/ui/crawls" in links
    assert not [link for link in links if link == "/" or link.startswith(("/ui/dom", "/ui/proc"))]


@pytest.mark.parametrize("at", [-(10**18), 10**18, 1e300, -253_402_300_799])
def test_any_time_is_shown(at: float) -> None:
    """What a client gave for a time, however far away, ends no page."""
    assert moment(at).endswith("1970")
    assert moment(0) == "1970-01-01 00:00:00 UTC"


def test_figures_are_for_people() -> None:
    """Sizes and times have the unit that suits them."""
    assert [volume(size) for size in (0, 1023, 1536, 200 * 1024, 3 * 2**30)] == [
        *("0 B", "1023 B", "1.5 KiB", "200 KiB", "3.0 GiB"),
    ]
    assert duration(0).endswith(" d")


def test_the_ids_of_a_crawl_stay_whole_in_addresses() -> None:
    """Whatever characters an id has, it does not end its parameter."""
    assert "a%26b%3Dc%23%2F" in crawl_path(hostile_crawl("a&b=c#/"))
