"""Texts for a user while a crawl runs and when it is over."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from crawlstream.boot.settings import load_settings
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.words.quantities import by_reason, size
from crawlstream_cli.common.follow import CrawlProgress
from crawlstream_cli.common.words import counted
from crawlstream_cli.crawl import watch as watching
from crawlstream_cli.crawl.budget_texts import bytes_of
from crawlstream_cli.crawl.ending import Summary, exit_code, print_result
from crawlstream_cli.crawl.line import progress_text
from crawlstream_cli.crawl.watch import SILENCE_S, CrawlWatch

CRAWL = CrawlKey("shop", "crawlstream", "job")


def state(**changes: Any) -> CrawlState:
    """A ledger of a run."""
    counts = ("admitted", "queued", "delayed", "held", "done", "failed")
    others = ("expires", "redirected", "stopped", "expired")
    fields = {**dict.fromkeys((*counts, *others), 0), "state": "running", **changes}
    return CrawlState(crawl=CRAWL, run=1, started_at=0, last_activity=0, **fields)


def site(**changes: Any) -> DomainReport:
    """A site whose rule lets a request go every six seconds."""
    zeros = "unreported under_way not_before_ms strikes silences unanswered_ms crawl_delay_ms"
    rule = ThrottleRule(hits=10, window_s=60)
    fields = {**dict.fromkeys(zeros.split(), 0), "rule": rule, "next_ms": 4100, **changes}
    return DomainReport(domain="a.example", queues=[], **fields)


def watch(progress: CrawlProgress) -> CrawlWatch:
    """State of a crawl that was not looked at yet."""
    return CrawlWatch(load_settings(), CRAWL, progress, hosts=["a.example"], on_absence=print)


def ended(event: str = "crawl_finished", **counters: Any) -> dict[str, Any]:
    """The event that ends a crawl."""
    return {"event": event, "counters": {"done": 0, "filtered": {}, **counters}}


def test_the_line_tells_what_is_done_what_waits_and_until_when() -> None:
    """A narrow terminal cuts what is known already: the rule of the site comes last."""
    progress = CrawlProgress(results=12, failed=Counter(timeout=1, dns=2), accepted=True)
    seen = watch(progress)
    seen.state, seen.site = state(queued=28, delayed=1, held=1), site()
    assert progress_text(seen) == (
        "12 done, 29 waiting, 1 in flight, 3 failed (dns 2, timeout 1), 0.0 pages/s, ETA 3 min,"
        " next request in 4.1 s, a.example gets 10 per 60 s"
    )
    seen.state = state(held=1)
    assert "next request" not in progress_text(seen)
    seen.site = site(rule=ThrottleRule(hits=0, window_s=60))
    assert progress_text(seen).endswith("a.example is blocked")
    seen.state, seen.site = state(state="paused", queued=1), None
    assert progress_text(seen).endswith("paused")


def test_the_line_tells_what_is_missing() -> None:
    """A monitor to take the request, then a crawler."""
    progress = CrawlProgress()
    seen = watch(progress)
    assert progress_text(seen) == "waiting for a kafka-monitor to process the request"
    progress.accepted, seen.absence = True, "No crawler of spider 'shop' is running."
    assert progress_text(seen) == "0 done, 0 failed, 0.0 pages/s, no crawler of spider 'shop'"
    seen.lane = "shop+render"
    assert progress_text(seen).endswith("no crawler of spider 'shop+render'")


async def test_it_is_asked_again_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows each change of the answer once while nothing arrives."""
    answers, heard, clock = iter(["nobody", "nobody", "", "nobody"]), list[str](), [0.0]

    async def absence(*_: object, **__: object) -> str:
        return next(answers)

    monkeypatch.setattr(watching, "absence", absence)
    monkeypatch.setattr("crawlstream_cli.crawl.watch.time.monotonic", lambda: clock[0])
    progress = CrawlProgress(accepted=True)
    seen = CrawlWatch(load_settings(), CRAWL, progress, hosts=[], on_absence=heard.append)
    for _ in range(4 * int(SILENCE_S)):
        clock[0] += 1
        await seen._listen()
    assert heard == ["nobody", "", "nobody"]
    progress.results = 1
    await seen._listen()
    assert heard[-1] == ""


@pytest.mark.parametrize(
    ("progress", "code"),
    [
        (CrawlProgress(results=1, ending=ended(done=1)), 0),
        (CrawlProgress(ending=ended(done=1)), 0),
        (CrawlProgress(failed=Counter(dns=1), ending=ended()), 1),
        (CrawlProgress(results=1, ending=ended(done=1), refused={"u": "why"}), 1),
        (CrawlProgress(results=1, ending=ended("crawl_stopped", done=1)), 1),
        (CrawlProgress(refused={"u": "why"}), 1),
    ],
    ids=["page", "silent page", "no page", "seed rejected", "stopped", "all rejected"],
)
def test_the_exit_code_tells_the_truth(progress: CrawlProgress, code: int) -> None:
    """0 only where the crawl finished, every seed was taken and a page was fetched."""
    assert exit_code(progress) == code


def last_words(progress: CrawlProgress, output: Path | None = None) -> list[str]:
    """The lines after a crawl."""
    shown = io.StringIO()
    print_result(Summary(CRAWL, progress, 2.13, output), Console(file=shown, width=200))
    return shown.getvalue().splitlines()


def test_the_last_line_names_the_budget_that_a_crawl_has_spent() -> None:
    """An end by `expires` names none."""
    spent = {**ended("crawl_expired", done=1), "by": "max_seconds"}
    for ending, words in ((spent, "expired by max_seconds"), (ended("crawl_expired"), "expired")):
        (last,) = last_words(CrawlProgress(results=1, ending=ending))
        assert last.startswith(f"Crawl job {words}: 1 page")


def test_the_last_line_tells_what_came_and_where_it_is() -> None:
    """Pages, what failed and was filtered, bytes, duration, the file."""
    ending = ended(done=1, filtered={"duplicate": 3})
    progress = CrawlProgress(results=1, body_bytes=3_900_000, ending=ending)
    assert last_words(progress, Path("pages.jsonl")) == [
        "Crawl job finished: 1 page, 3 filtered (duplicate 3), 3.9 MB, 2 s -> pages.jsonl"
    ]


def test_pages_that_are_no_success_are_counted_by_status() -> None:
    """The last line counts them; a failed page is named with its reason in words."""
    progress = CrawlProgress(
        results=130,
        statuses=Counter({200: 128, 404: 1, 500: 1}),
        failed=Counter(robots=1),
        first_failed={"http://a.example/private/x": "robots"},
        ending=ended(done=130),
    )
    failed, last, _ = last_words(progress)
    assert failed == (
        "Failed (robots): 1: the site's robots.txt forbids it, as http://a.example/private/x"
    )
    assert "finished: 130 pages (128 x 200, 1 x 404, 1 x 500), 1 failed (robots 1)," in last


def test_a_crawl_without_a_page_says_why_and_what_to_do() -> None:
    """The first URLs with their reasons, and how to see all of them."""
    progress = CrawlProgress(
        failed=Counter(dns=7), first_failed={"http://no.example/": "dns"}, ending=ended()
    )
    words = last_words(progress)
    assert words[1] == "No page was fetched."
    assert words[2].startswith("  http://no.example/  dns: the crawler's machine knows no address")
    assert words[3] == (
        "Crawl job finished, but fetched nothing: 0 pages, 7 failed (dns 7), 0 B, 2 s"
    )
    assert words[4] == "What failed: ./crawlstream failures job"


def test_numbers_are_read_as_words() -> None:
    """A single thing is singular, and units fit their numbers."""
    assert [counted(number, "page") for number in (0, 1, 1200)] == [
        "0 pages",
        "1 page",
        "1,200 pages",
    ]
    assert [size(number) for number in (17, 1000, 3.9e6, 5e12)] == [
        "17 B",
        "1.0 kB",
        "3.9 MB",
        "5.0 TB",
    ]
    assert by_reason({"a": 1, "b": 2, "c": 2}) == "b 2, c 2, a 1"


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("500", 500),
        ("10G", 10**10),
        ("1.5T", 1_500_000_000_000),
        ("7 kb", 7_000),
        ("2MB", 2 * 10**6),
    ],
)
def test_bytes_have_decimal_units(text: str, most: int) -> None:
    """Reads bytes in decimal units: 1 GB is 10^9 bytes."""
    assert bytes_of(text) == most


@pytest.mark.parametrize("text", ["", "0", "-1G", "ten", "1G5", "1001T", "1GiB"])
def test_other_texts_are_refused(text: str) -> None:
    """Refuses other texts, with an example."""
    with pytest.raises(typer.BadParameter, match="10G"):
        bytes_of(text)
