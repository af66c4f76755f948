"""Pages that may be spent on a made-up neighbour."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crawling.page.page import Page
from crawling.runtime.neighbours import Neighbours
from crawlstream.model.crawl import ANSWER_PAGE, Entry, Profile
from support.crawler.leases import lease

URL = "http://a.example/events/3"


def _spent(profile: Profile, **entry: Any) -> bool:
    """Return whether a page was spent, and not let through."""
    page = Page(lease(entry=Entry(url=URL, **entry), profile=profile), "id")
    started: list[Any] = []
    passed: list[Page] = []
    waste = SimpleNamespace(question=lambda _page: "a question")
    tasks = SimpleNamespace(spawn=started.append)
    rest: Any = SimpleNamespace()
    neighbours = Neighbours(
        waste,  # type: ignore[arg-type]
        rest,
        leases=rest,
        tasks=tasks,  # type: ignore[arg-type]
        fetch=rest,
        noting=rest,
        agent="agent",
    )
    neighbours.admit(page, passed.append)
    for work in started:
        work.close()
    assert len(started) + len(passed) == 1
    return bool(started)


def test_a_page_of_a_crawl_that_pays_nothing_is_spent() -> None:
    """Spends the grant of an unpaid page, also if the client of its crawl waits for others."""
    assert _spent(Profile(guard="on"))
    assert _spent(Profile(guard="on", answer=ANSWER_PAGE))


@pytest.mark.parametrize(
    ("profile", "entry"),
    [
        (Profile(guard="on", purse="news"), {}),
        (Profile(guard="on", answer=ANSWER_PAGE), {"origin": "in-0-1"}),
        (Profile(guard="on", answer=ANSWER_PAGE), {"origin": "in-0-1", "redirect_urls": (URL,)}),
    ],
    ids=["purse", "seed", "where a seed led"],
)
def test_pages_that_pay_or_that_a_client_waits_for_are_let_through(
    profile: Profile, entry: dict[str, Any]
) -> None:
    """A reply would come later, and a price be reserved for a page that is not there."""
    assert not _spent(profile, **entry)
