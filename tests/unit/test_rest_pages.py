"""The dashboard's pages as HTML: hostile text is seen, never run."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.throttle import ThrottleRule
from rest_service.dashboard import pages
from rest_service.gate import SECURITY_HEADERS

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "javascript:alert(1)",
    "</title><script>alert(1)</script>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "{{ 7 * 7 }}{% raw %}",
    "<!--<script>",
    "<a href=javascript:alert(1)>x</a>",
    "&lt;script&gt;",
    "\u202e<b>\u2028",
]
OWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "strong", "nav"),
    *("main", "noscript", "p", "h1", "h2", "section", "div", "dl", "dt", "dd", "table", "thead"),
    *("tbody", "tr", "th", "td", "span", "progress", "form", "input", "label", "button", "select"),
    "option",
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


def _screens(text: str) -> list[bytes]:
    one = hostile_crawl(text)
    rule = ThrottleRule(hits=1, window_s=1)
    columns = ("url", "errors")
    records = [{"value": {"url": text, "errors": [text, text]}}]
    rendered = [
        pages.render(
            "crawl.html",
            one=one,
            figures=[("done", 1)],
            domains=[(text, 1)],
            steering=pages._STEERING,
            failures_path=pages.crawl_path(one, "/ui/failures"),
            csv_path=pages.crawl_path(one, "/ui/failures.csv"),
        ),
        pages.render("crawls.html", appid=text, state=text, total=1, crawls=[one], problems=[text]),
        pages.render("overview.html", problems=[text], figures=[], crawls=[one], processes=[]),
        pages.render(
            "records.html", heading=text, columns=columns, records=records, next_path="/ui/x"
        ),
        pages.render(
            "domains.html", rules=[(text, rule)], blacklist={text}, blocked=[text], edits=[]
        ),
        pages.render("problem.html", status=404, code=404, message=text),
    ]
    return [bytes(response.body) for response in rendered]


@pytest.mark.parametrize("text", PAYLOADS)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    """No text makes an element, a handler or an address; it can be read as it was written."""
    for page in _screens(text):
        seen = Seen(page)
        assert {tag for tag, _ in seen.elements} <= OWN_TAGS
        assert [tag for tag, _ in seen.elements].count("script") == 1
        for tag, attributes in seen.elements:
            assert not any(name.startswith("on") for name in attributes), (tag, attributes)
            assert "style" not in attributes
            for name in ("href", "src", "action"):
                assert (attributes.get(name) or "/").startswith(("/", "#")), (tag, attributes)
        assert text in seen.text


def test_scripts_come_from_here_only() -> None:
    """The policy lets nothing run that is not a file of ours, and no page frames another."""
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    """A spreadsheet shows what a stranger wrote, and does not compute it."""
    rows: list[dict[str, Any]] = [{"url": text, "reason": 'a"b,c\n'}]
    table = list(csv.reader(io.StringIO(pages.as_csv(("url", "reason"), rows), newline="")))
    assert table == [["url", "reason"], [f"'{text}", 'a"b,c\n']]
