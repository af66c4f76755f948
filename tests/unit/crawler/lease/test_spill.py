"""Leases whose links have no room in Redis: not ended before Kafka has these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawling.publish.spill import Spiller
from crawlstream.model.effects import Links, Outcome, Settle, Spill
from support.crawler.leases import lease


class Spilling:
    """A process with four slots, and its settles to spill."""

    def __init__(self) -> None:
        self.settles: list[tuple[Page, Settle]] = []
        self.leases = Leases(4, lambda: None)
        self.leases.spiller = self

    def takes(self, page: Page) -> bool:
        """As the partition of a page reports."""
        return self.leases.of(page.lease.partition).is_crowded

    def begin(self, page: Page, settle: Settle) -> None:
        """Note it."""
        self.settles.append((page, settle))

    def page(self) -> Page:
        """A page that leads somewhere."""
        page = self.leases.admit(lease(issued_at=0.0))
        page.links = [Links(domain="a", priority=1, fingerprints=["1"], entries=[b"e"])]
        return page

    def finish(self) -> Settle:
        """Kafka has the spilled links; the reports to the frontier then."""
        page, settle = self.settles.pop()
        settle = replace(settle, links=(), spilled={0: 1})
        self.leases.spilled(page, settle)
        return settle


@pytest.fixture
def spilling() -> Spilling:
    """Nothing in progress."""
    return Spilling()


def test_links_that_were_refused_are_spilled_before_their_page_ends(spilling: Spilling) -> None:
    """The page is held until then, and told without them."""
    leases, page = spilling.leases, spilling.page()
    leases.settle(page, Outcome.DONE, "2xx")
    owed = leases.of(0).take_report()
    leases.reported(0, owed, stale=(), refused={page.token})
    assert (page.phase, page.is_open, leases.of(0).has_report) == (Phase.SPILLING, False, False)
    assert leases.of(0).alive() == [page.token]
    settle = spilling.finish()
    owed = leases.of(0).take_report()
    assert list(owed.settles) == [settle]
    leases.reported(0, owed, stale=())
    assert not leases.of(0).alive()


def test_a_process_that_knows_does_not_ask(spilling: Spilling) -> None:
    """Pages with links go to Kafka at once; those without end as always."""
    leases, page = spilling.leases, spilling.page()
    leases.of(0).is_crowded = True
    leases.settle(page, Outcome.DONE, "2xx")
    leases.settle(page, Outcome.DONE, "2xx")
    assert not leases.of(0).has_report
    assert len(spilling.settles) == 1
    page = spilling.page()
    page.links = ()
    leases.settle(page, Outcome.DONE, "2xx")
    assert len(leases.of(0).take_report().settles) == 1


def test_a_page_that_went_to_other_hands_while_it_spilled_is_told_all_the_same(
    spilling: Spilling,
) -> None:
    """The frontier calls it stale, and forgets what it knows of its records."""
    leases, page = spilling.leases, spilling.page()
    leases.of(0).is_crowded = True
    leases.settle(page, Outcome.DONE, "2xx")
    assert leases.lose(0, [page.token]) == []
    settle = spilling.finish()
    owed = leases.of(0).take_report()
    assert list(owed.settles) == [settle]
    assert leases.reported(0, owed, stale=[page.token]) == []
    assert not leases.of(0).alive()


class Session:
    """A worker that has forgotten the inheritance of the page at hand, or has it."""

    def __init__(self, *spills: Spill) -> None:
        self.spills = spills

    def spill(self, *_: object) -> tuple[Spill, ...]:
        """The links as records."""
        return self.spills


class Publisher:
    """Takes everything."""

    async def spill(self, _values: object) -> tuple[bytes, ...]:
        """Nothing is too large."""
        return ()


@pytest.mark.parametrize("spills", [(), (Spill(0, 1, b"a record"),)])
async def test_a_page_does_not_end_without_its_links(
    spilling: Spilling, spills: tuple[Spill, ...]
) -> None:
    """It is released if no process knows any more what they inherit."""
    leases, page = spilling.leases, spilling.page()
    tasks = Tasks(lambda: None)
    spiller = Spiller(
        Session(*spills),  # type: ignore[arg-type]
        Publisher(),  # type: ignore[arg-type]
        leases,
        tasks,
    )
    leases.spiller = spiller
    leases.of(0).is_crowded = True
    leases.settle(page, Outcome.DONE, "2xx")
    await tasks.finish(1)
    owed = leases.of(0).take_report()
    assert [settle.spilled for settle in owed.settles] == [{0: 1} for _ in spills]
    assert [release.token for release in owed.releases] == ["1-1" for _ in range(1 - len(spills))]
    leases.reported(0, owed, stale=())
    assert not leases.of(0).alive()
