"""The dashboard's pages as HTML: hostile text is seen, never run."""

from __future__ import annotations

import csv
import dataclasses
import io
import time
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport
from crawlstream.model.process import Activity, LogLine, Process
from crawlstream.model.recurring.schedule import Schedule, ScheduleState
from crawlstream.model.request import CrawlRequest
from crawlstream.model.run_history import CHANGES, Comparison, CrawlRun, PageChange, RunHistory
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.traffic import DomainTraffic
from crawlstream.model.words.condition import badge
from crawlstream.model.words.quantities import size
from crawlstream_frontier.rule_history import KnownChange, RuleChange
from rest_service.dashboard import (
    cluster,
    crawls,
    fields,
    page_screen,
    reference,
    runs,
    search,
    submit,
)
from rest_service.dashboard.domain_rows import DomainRow
from rest_service.dashboard.listing import Listing
from rest_service.dashboard.problems import ProblemNote, absences
from rest_service.dashboard.render import (
    crawl_path,
    effect,
    moment,
    past,
    render,
    render_live,
    span,
)
from rest_service.http.access import Client, Role
from rest_service.http.gate import SECURITY_HEADERS
from rest_service.http.hiding import SECRET_FIELDS
from rest_service.v2.records import as_csv
from support.hostile_texts import SCRIPTS, next_pages_of

OWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "img", "nav"),
    *("main", "noscript", "p", "h1", "h2", "section", "div", "dl", "dt", "dd", "table", "thead"),
    *("tbody", "tr", "th", "td", "span", "form", "input", "label", "button", "select", "textarea"),
    *("option", "svg", "rect", "ul", "li", "i", "small", "strong", "pre", "dialog", "figure"),
    *("figcaption", "output", "footer", "article", "code", "details", "summary"),
    *("datalist", "mark"),
}


class Seen(HTMLParser):
    """A page as a browser parses it: elements, their attributes, text."""

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
        refused_by_family={f"guard_path {text.replace(' ', '')} /a": 1},
        done_by_status={text: 1},
        domains=[DomainBacklog(domain=text, total=1, high_priority=1, low_priority=1)],
        **counts,
    )


def _row(text: str) -> DomainRow:
    zero: dict[str, Any] = dict.fromkeys(
        (*("unreported", "under_way", "not_before_ms", "next_ms", "strikes", "silences"),), 0
    )
    rule = ThrottleRule(hits=1, window_s=1)
    report = DomainReport(
        domain=text,
        rule=rule,
        unanswered_ms=0,
        crawl_delay_ms=0,
        queues=[],
        **zero,
    )
    traffic = DomainTraffic(
        responses=9, success_rate=0, latency_ms=None, reasons={text: 9}, per_minute=(1, 0, 99)
    )
    return DomainRow(name=text, source="own", rule=rule, report=report, traffic=traffic)


def _story(text: str) -> dict[str, Any]:
    """All that can be known of a URL."""
    ids = dict.fromkeys(("spiderid", "appid", "crawlid"), text)
    numbers = dict.fromkeys(("status_code", "attempt", "depth", "body_size", "latency_ms"), text)
    record = {**ids, "at_ms": 0, "partition": 0, "offset": 1, "chain": [text, text]}
    page = {"crawl": ids, "run": 1, "state": text, "where": text, "summary": text}
    return {
        "url": text,
        "domain": {"domain": text},
        "limits": text,
        "crawls": [{**page, "sightings": [{"summary": text}]}],
        "asked": 1,
        "is_cut": True,
        "results": [{**record, **numbers, "url": text + "/"}],
        "failures": [{**record, "reason": text, "detail": text}],
        "looked_at": {"results": 1, "events": 1},
        "is_whole": False,
    }


def _values(text: str) -> dict[str, dict[str, Any]]:
    """Values of each template, whose texts are all hostile."""
    one = hostile_crawl(text)
    told = dict.fromkeys(("url", "parent", "body_size", "errors", "reason", "topic"), text)
    record = {"partition": 0, "offset": 1, "at_ms": 0, "key": text, "value": told}
    activity = Activity(rate=1.5, in_flight=2, complaints=[LogLine(0, text, text)])
    process = Process(kind=text, spider=text, host=text, version=text, activity=activity)
    reach = SimpleNamespace(kafka=True, redis=False)
    listing = Listing("/x", dict.fromkeys(("status", "reason", "q"), text), text)
    paths = {"next_path": "/x", "csv_path": "/y", "jsonl_path": "/z"}
    return {
        "crawl.html": {
            "one": one,
            "spiders": frozenset(),
            "problems": [],
            "ledger": [("done", 1, text)],
            "pace": text,
            "limit": (text, text),
            "domains": [(domain, None) for domain in one.domains],
            "left": 1,
            "next": next_pages_of(text),
            "steering": crawls._BUTTONS["running"],
        },
        "crawls.html": {
            "listing": Listing("/ui/crawls", dict.fromkeys(("q", "appid", "state"), text), text),
            "states": [(text, 1), ("x" + text, 2)],
            "total": 1,
            "left": 1,
            "spiders": None,
            "crawls": [one],
            "problems": [ProblemNote(text, text, "/x")],
        },
        "overview.html": {
            "problems": [ProblemNote(text, text, "/x")],
            "figures": [(text, text, text)],
            "spiders": frozenset({"link"}),
            "span_s": 900,
            "spans": cluster.SPANS,
            "crawls": [one],
            "kinds": [(text, 1)],
        },
        "failures.html": {
            "one": one,
            "reasons": [(text, [{**told, "at_ms": 0}])],
            "counts": {text: 1},
            "is_first": False,
            "listing": listing,
            **paths,
        },
        "pages.html": {
            "one": one,
            "records": [record],
            "families": [("2", 1)],
            "is_first": False,
            "listing": listing,
            **paths,
        },
        "page.html": page_values(text),
        "rejected.html": {
            "records": [record],
            "reason": text,
            "reasons": [(text, 1), ("x" + text, 1)],
            "total": 2,
            "left": 1,
            **paths,
        },
        "rejected_one.html": {
            "record": record,
            "fields": [(text, text)],
            "errors": [text],
            "text": text,
            "edited": text,
            "wrong": {"": text},
            "is_hidden": False,
            "can_be_edited": True,
            "can_be_replayed": True,
        },
        "domains.html": {
            "name": text,
            "listing": Listing("/ui/domains", {"name": text, "q": text}, text),
            "edited": ThrottleRule(hits=1, window_s=1),
            "problems": [ProblemNote(text, text, "/x")],
            "rows": [_row(text)],
            "total": 2,
            "history": [KnownChange(RuleChange(1, text, text, text), 0, text)],
            "typed": {"hits": text},
            "wrong": {"": text, "domain": text, "hits": text},
            "default": ThrottleRule(hits=1, window_s=1),
        },
        "process.html": {
            "name": text,
            "problems": [],
            "one": replace(
                process,
                activity=Activity(can_drain=True, tail=[LogLine(0, text, text)]),
            ),
        },
        "processes.html": {"processes": [process], "reach": reach},
        "submit.html": {
            "repeated": text,
            "problems": [ProblemNote(text)],
            "spiders": [text],
            "fields": fields.MORE,
            "values": dict.fromkeys([*_MAIN, *(one.name for one in fields.MORE)], text),
            "wrong": dict.fromkeys(["", "file", *_MAIN], text),
        },
        "search.html": {
            "q": text,
            "problem": text,
            "is_exact": False,
            "is_blind": True,
            "spiders": None,
            "crawls": [one],
            "domains": [text],
        },
        "url.html": {"story": _story(text), "path_of": search._path_of},
        "runs.html": {
            "key": one.crawl,
            "history": RunHistory([_run(text)], is_complete=False),
            "schedules": [
                (ScheduleState(schedule=Schedule(appid=text, name=text, cron=text)), [0])
            ],
            "firings": [
                {**runs._UNTOLD, "event": text, "schedule": text, "crawlid": text, "path": "/x"}
            ],
            "earlier": text,
        },
        "compare.html": {"key": one.crawl, "found": _comparison(text), "titles": runs._TITLES},
        "reference.html": {
            "about": text,
            "version": text,
            "description": "/v2/openapi.json",
            "sections": {text: [_operation(text)]},
        },
        "problem.html": {"code": text, "message": text, "is_unknown": True},
        "confirm.html": {"question": text, "action": "/x", "fields": [(text, text)], "back": "/y"},
    }


def page_values(text: str, tab: str = "raw") -> dict[str, Any]:
    """A page of which a stranger wrote everything."""
    names = (*_IDS, "url", "status_code", "body", "attempt", "parent_url", "body_ref", "run")
    value: dict[str, Any] = dict.fromkeys(names, text)
    headers = {"Content-Type": [text], text: [text, {text: text}]}
    value |= {"redirect_urls": [text], "body_truncated": True, "attrs": {text: text}}
    value |= dict.fromkeys(("dropped", "canonical", "text_signature"), text)
    value |= dict.fromkeys(("request_headers", "response_headers"), headers)
    value |= {"links": [{"url": text, "text": text}], "screenshot": {"ref": text}}
    record = page_screen.PageRecord((0, 1), 0, value)
    return {
        "page": record,
        "value": value,
        "tab": tab,
        "tabs": page_screen._TABS,
        "q": text,
        "shown_text": page_screen.excerpt(f"x{text}x", text, 1),
        "links": page_screen._links(record, ""),
        "fields": page_screen._fields(record),
        "end": "none",
        "is_long": True,
        "path_to": page_screen._path_to,
    }


_IDS = ("spiderid", "appid", "crawlid")
_MAIN = ("urls", "appid", "crawlid", "spiderid", "maxdepth", "max_pages", "priority", "scope")


def _run(text: str) -> CrawlRun:
    return CrawlRun(crawl=CrawlKey(text, text, text), run=1, state=text, counters={"done": 1})


def _comparison(text: str) -> Comparison:
    return Comparison(
        before=_run(text),
        after=_run("other"),
        counts=dict.fromkeys((*CHANGES, "same"), 2),
        changes={name: [PageChange(text, 200, None)] for name in CHANGES},
        share=0.5,
        is_complete=False,
    )


def _operation(text: str) -> reference.Operation:
    argument = reference.Argument(text, text, text, is_required=True, notes=text)
    return reference.Operation(
        name="get-x",
        method=text,
        path=text,
        summary=text,
        about=text,
        arguments=[argument],
        examples=[(text, text)],
    )


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
        for name in ("href", "src", "action"):
            address = attributes.get(name) or "/"
            assert address.startswith(("/", "#")), (tag, attributes)
            assert not address.startswith("//")
    values = [value for _, attributes in seen.elements for value in attributes.values()]
    assert text in seen.text or text in values


@pytest.mark.parametrize(
    "template",
    [
        "crawl.html",
        "crawls.html",
        "overview.html",
        "domains.html",
        "processes.html",
        "process.html",
    ],
)
def test_the_live_part_is_that_of_the_page(template: str) -> None:
    """The stream sends the text of the page, so that nothing jumps when it begins."""
    values = _values("plain")[template]
    live = render_live(template, client=OPERATOR, **values).strip()
    assert live
    assert live in bytes(render(template, client=OPERATOR, **values).body).decode()


def test_scripts_come_from_here_only() -> None:
    """The policy allows only scripts of the service, and no page frames another."""
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
    """Any time that a client has given can be shown."""
    assert moment(at).endswith("1970")
    assert moment(0) == "1970-01-01 00:00:00 UTC"


def test_figures_are_for_people() -> None:
    """Sizes and times have the unit that suits them."""
    assert [size(count) for count in (0, 999, 1500, 78_700, 3 * 10**9)] == [
        *("0 B", "999 B", "1.5 kB", "78.7 kB", "3.0 GB"),
    ]
    assert past(0).partition(" ")[2].startswith("d")
    assert [past(time.time() - seconds) for seconds in (42, 954, 7_510)] == [
        *("42 s", "15 min", "2 h 5 min"),
    ]
    assert [span(ms) for ms in (850, 3_200, 954_000)] == ["850 ms", "3.2 s", "15 min"]


def test_the_ids_of_a_crawl_stay_whole_in_addresses() -> None:
    """Keeps ids of a crawl in addresses, whatever characters they have."""
    assert "a%26b%3Dc%23%2F" in crawl_path(hostile_crawl("a&b=c#/"))


def test_a_crawl_that_nobody_works_on_waits() -> None:
    """A running crawl whose spider has no crawler says so, with what ends it."""
    one = replace(hostile_crawl("produkte"), state="running", held=0)
    assert badge(one, frozenset({"link"})) == "waiting: no crawler of produkte"
    (problem,) = absences([one], frozenset({"link"}))
    assert problem.text == (
        "No crawler of spider produkte is running (running: link), so a crawl waits. If the name is"
        " wrong, stop the crawls that wait for it."
    )
    assert problem.command == "./crawlstream up -d --spider produkte=1"
    values = {**_values("plain")["overview.html"], "problems": [problem], "crawls": [one]}
    page = Seen(bytes(render("overview.html", client=OPERATOR, **values).body)).text
    assert problem.command in page
    assert "waiting: no crawler of produkte" in page


def test_a_crawl_that_waits_for_a_browser_names_it() -> None:
    """A crawler of its spider without one is of no use to it; where both are missing, both are."""
    one = replace(hostile_crawl("shop"), state="running", held=0, lanes=("shop+render",))
    assert badge(one, frozenset({"shop"})) == "waiting: no crawler of shop+render"
    assert badge(one, frozenset({"shop+render"})) == "running"
    (problem,) = absences([one], frozenset({"shop"}))
    assert problem.command == "./crawlstream up -d --spider shop+render=1"
    both = replace(one, lanes=("shop", "shop+render"))
    assert badge(both, frozenset()) == "waiting: no crawler of shop or shop+render"
    assert badge(both, frozenset({"shop"})) == "running"
    assert len(absences([both], frozenset())) == 2


@pytest.mark.parametrize("state", ["paused", "finished", "stopped"])
def test_what_is_known_better_is_not_called_waiting(state: str) -> None:
    """Shows no crawl as waiting that has a crawler, fetches pages, or is unknown."""
    one = replace(hostile_crawl("produkte"), state="running", held=0)
    assert badge(replace(one, held=1), frozenset()) == "running"
    for spiders in (frozenset({"produkte"}), None):
        assert badge(one, spiders) == "running"
    assert badge(replace(one, state=state), frozenset()) == state
    assert absences([replace(one, queued=0, delayed=0)], frozenset()) == []


def test_every_field_of_a_crawl_request_can_be_given() -> None:
    """The form has an input for each, by its name on the wire, but for what is of programs."""
    values = _values("1")["submit.html"]
    elements = Seen(bytes(render("submit.html", client=OPERATOR, **values).body)).elements
    names = {attributes.get("name") for _, attributes in elements}
    of_programs = {"url", "answer", "occasion", "etag", "last_modified"}
    assert {one.name for one in dataclasses.fields(CrawlRequest)} - names == of_programs


def test_a_repetition_is_filled_with_what_was_fed() -> None:
    """Lists, pairs and data as they would be typed; what was that crawl's own is left out."""
    seeds: list[dict[str, Any]] = [
        {
            "url": "http://a.test/",
            "appid": "shop",
            "crawlid": "x",
            "uuid": "u",
            "expires": 9,
            "maxdepth": 2,
            "allowed_domains": ["a.test", "b.test"],
            "headers": {"A": "b"},
            "attrs": {"job": 7},
            "obey_robots": False,
            "max_pages": None,
        },
        {"url": "http://b.test/"},
    ]
    shown = {"urls": "http://a.test/\nhttp://b.test/", "maxdepth": "2", "attrs": '{"job":7}'}
    assert submit._filled(seeds) == {
        **shown,
        "allowed_domains": "a.test\nb.test",
        "headers": "A: b",
        "obey_robots": "false",
    }
    assert "headers" not in submit._filled(seeds, submit._ONCE | SECRET_FIELDS)
    assert submit._filled([]) == {}


def test_a_rule_is_told_by_what_it_comes_to() -> None:
    """It shows a rate, or a pause if that is less than one per second, and the time of a queue."""
    assert effect(ThrottleRule(hits=5, window_s=1), 278) == "5 requests/s; 278 pages in 55.6 s"
    assert effect(ThrottleRule(hits=10, window_s=60)) == "a request each 6 s"
    assert effect(ThrottleRule(hits=10, window_s=1, scale=0)) == "nothing is fetched"


def test_the_rule_of_a_domain_is_filled_in() -> None:
    """The form has the rule in force, and saving it unchanged changes no field."""
    rule = ThrottleRule(hits=7, window_s=2, moderated=False, concurrency=3)
    values = {**_values("plain")["domains.html"], "edited": rule, "typed": {}}
    elements = Seen(bytes(render("domains.html", client=OPERATOR, **values).body)).elements
    filled = {at["name"]: at.get("value") for tag, at in elements if tag == "input" and "max" in at}
    assert [*filled.values()] == ["7", "2", "1", "3", "30", "0"], filled
    assert ("option", {"value": "false", "selected": None}) in elements
