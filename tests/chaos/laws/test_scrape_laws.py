"""Laws of clients that scrape, by planted violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chaos.laws.good_facts import GOOD, STRIKE, record
from crawlstream_chaos.facts.facts import Facts, HostRule, TopicRecord
from crawlstream_chaos.facts.scrapes import SCRAPED, ScrapeAnswer, SeenScrapes
from crawlstream_chaos.laws.scrapes import LAWS
from crawlstream_cli.demo.access_log import LoggedRequest

HOST, SPARE = "127.0.0.9", 4
URL = f"http://{HOST}:1{SCRAPED}1"
PAGE: Mapping[str, Any] = {"id": "p1", "url": URL, "status_code": 404}
FED = {"s1": URL, "s2": f"http://{HOST}:1{SCRAPED}2"}
RECORDS = [
    record("crawled_firehose", 50, 2_000, **PAGE),
    record("outbound_firehose", 1, 2_001, action="page", uuid="s1", id="p1", url=URL),
    record("outbound_firehose", 2, 2_002, action="page", uuid="s2", reason="expired"),
]


def answer(name: str, process: int, at: float = 2_100, /, **told: Any) -> ScrapeAnswer:
    """An answer about a scrape: its page, unless another one is given."""
    page: Mapping[str, Any] = told.pop("page", PAGE if name == "s1" else {})
    state = {"state": "done" if page else "failed", "reason": "" if page else "expired"}
    fields = {"status": 200, **state, **told}
    return ScrapeAnswer(id=name, process=process, at=at, page=page, **fields)


def visits(path: str, count: int, first: float = 1_000) -> list[LoggedRequest]:
    """Requests to the host, one each 10 ms."""
    return [
        LoggedRequest(first + 10 * n, 0, HOST, "GET", f"{path}{n}", 404, "") for n in range(count)
    ]


def scraped(
    *, records: list[TopicRecord] | None = None, ours: int = 14, theirs: int = 10, **changes: Any
) -> Facts:
    """Facts of a crawl and of two scrapes, of which one has a page; with changes."""
    seen = SeenScrapes(
        share=0.5,
        room=SPARE,
        since=900,
        until=5_000,
        fed=FED,
        answers=[answer("s1", 1, status=202, state="queued", page={}), answer("s1", 2)],
        final=[answer(name, process) for name in FED for process in (1, 2)],
        processes=[1, 2],
        records=RECORDS if records is None else records,
    )
    asked = [*visits(SCRAPED, ours), *visits("/beside/", theirs), *visits("/last", 1, 4_000)]
    rules = [HostRule(host=HOST, hits=hits, window_s=1) for hits in (60, 5)]
    return replace(GOOD, visits=asked, rules=rules, scrapes=replace(seen, **changes), strikes=[])


def broken(facts: Facts) -> dict[str, list[str]]:
    """Return the laws that are broken, and how."""
    return {name: found for name, law in LAWS.items() if (found := list(law(facts)))}


def test_good_scrapes_break_no_law() -> None:
    """A page for one, a reason for the other; half of the requests and as many as may start."""
    assert broken(scraped()) == {}
    assert broken(GOOD) == {}
    struck = replace(scraped(ours=20), strikes=[replace(STRIKE, at=2_000)])
    assert broken(struck) == {}
    slow_crawlers = scraped(ours=11, theirs=0)
    assert broken(slow_crawlers) == {}


@pytest.mark.parametrize(
    ("law", "what", "facts"),
    [
        ("scraped pages are of the site", "before the site was asked", scraped(ours=1)),
        ("scraped pages are of the site", "no such result", scraped(records=RECORDS[1:])),
        (
            "scraped pages are of the site",
            "before the site was asked",
            scraped(answers=[answer("s1", 1, 1_005)]),
        ),
        ("each scrape ends", "no reply about", scraped(records=RECORDS[:2])),
        ("each scrape ends", "nothing was fed", scraped(answers=[answer("s3", 1, page={})])),
        (
            "any process answers a scrape",
            "HTTP 404",
            scraped(processes=[1], final=[answer(n, 1, status=404, page={}) for n in FED]),
        ),
        (
            "any process answers a scrape",
            "process 2 was not asked",
            scraped(final=[answer(name, 1) for name in FED]),
        ),
        (
            "any process answers a scrape",
            "answered page p1 and page p2",
            scraped(answers=[answer("s1", 1), answer("s1", 1, page={**PAGE, "id": "p2"})]),
        ),
        ("crawls keep their share", "20 requests of scrapes", scraped(ours=20)),
        (
            "crawls keep their share",
            "15 requests of scrapes, 0 of crawls",
            replace(scraped(), visits=visits(SCRAPED, 15)),
        ),
    ],
)
def test_a_scrape_that_breaks_a_law_is_found(law: str, what: str, facts: Facts) -> None:
    """A made-up page, an id without an end, another answer elsewhere, more than the share."""
    found = broken(facts)
    assert any(what in each for each in found.pop(law))
    assert found.keys() <= {"scraped pages are of the site"}
