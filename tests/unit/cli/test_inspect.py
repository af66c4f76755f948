"""Arguments of ``crawlstream frontier inspect``, and its output."""

from __future__ import annotations

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import PagePlace, PageReport
from crawlstream.wire.views import summary_of
from crawlstream_cli.inspect import ObjectKind, kind_of


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("https://example.com/page", ObjectKind.URL),
        ("example.com/", ObjectKind.URL),
        ("example.com?q=1", ObjectKind.URL),
        ("example.com:8080", ObjectKind.URL),
        (r"http:\\example.com", ObjectKind.URL),
        ("example.com", ObjectKind.DOMAIN),
        ("127.0.0.1", ObjectKind.DOMAIN),
        ("localhost", ObjectKind.DOMAIN),
        ("7f3a9c0b12de", ObjectKind.CRAWL),
        ("shop#7?", ObjectKind.CRAWL),
    ],
)
def test_what_is_meant_is_read_from_the_text(what: str, kind: ObjectKind) -> None:
    """A slash, or what no host has, makes a URL, a dot a domain; all else is a crawl."""
    assert kind_of(what) is kind


@pytest.mark.parametrize("where", PagePlace)
def test_every_answer_is_a_sentence(where: PagePlace) -> None:
    """The possible outcomes of a page that no longer waits are shown by the counts of its run."""
    page = PageReport(
        crawl=CrawlKey("link", "app", "job"),
        run=1,
        state="running",
        where=where,
        failed_by_reason={"dns": 2},
        filtered_by_reason={"regex": 3},
    )
    said = summary_of(page)
    assert ("dns 2" in said) == (where is PagePlace.SEEN)
    assert ("regex 3" in said) == (where is PagePlace.NEVER)
