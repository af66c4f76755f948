"""What ``crawlstream frontier inspect`` understands, and what it says."""

from __future__ import annotations

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import PageReport, Where
from crawlstream.wire.views import summary_of
from crawlstream_cli.inspect import Kind, kind_of


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("https://example.com/page", Kind.URL),
        ("example.com/", Kind.URL),
        ("example.com?q=1", Kind.URL),
        ("example.com:8080", Kind.URL),
        (r"http:\\example.com", Kind.URL),
        ("example.com", Kind.DOMAIN),
        ("127.0.0.1", Kind.DOMAIN),
        ("localhost", Kind.DOMAIN),
        ("7f3a9c0b12de", Kind.CRAWL),
        ("shop#7?", Kind.CRAWL),
    ],
)
def test_what_is_meant_is_read_from_the_text(what: str, kind: Kind) -> None:
    """A slash, or what no host has, makes a URL, a dot a domain; all else is a crawl."""
    assert kind_of(what) is kind


@pytest.mark.parametrize("where", Where)
def test_every_answer_is_a_sentence(where: Where) -> None:
    """What may have become of a page that no longer waits is told by the counts of its run."""
    page = PageReport(
        crawl=CrawlKey("link", "app", "job"),
        run=1,
        state="running",
        where=where,
        failed_by_reason={"dns": 2},
        filtered_by_reason={"regex": 3},
    )
    said = summary_of(page)
    assert ("dns 2" in said) == (where is Where.SEEN)
    assert ("regex 3" in said) == (where is Where.NEVER)
