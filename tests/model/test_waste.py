"""The sketch of the waste guard, compared with its reference model on generated sites.

WASTE_SEEDS=10 ./crawlstream test tests/model/test_waste.py
"""

from __future__ import annotations

import os

import pytest

from crawlstream_chaos.waste_sites.honest import (
    HONEST,
    Forum,
    Languages,
    ManyStubs,
    News,
    Shop,
    Versions,
    Wiki,
)
from crawlstream_chaos.waste_sites.site import GeneratedSite
from crawlstream_chaos.waste_sites.traps import (
    TRAPS,
    AnyHost,
    Calendar,
    GrowingPaths,
    Orders,
    SessionIds,
    SoftErrors,
)
from crawlstream_frontier.waste.families import FamilyTable
from crawlstream_frontier.waste.packing import MOST_BYTES, pack, unpack
from support.waste.crawling import ModelCrawl
from support.waste.model import YIELDS, GuardModel

SEEDS = range(1, 1 + int(os.environ.get("WASTE_SEEDS", "3")))
BUDGET = 3000
NOW = 1_700_000_000

LEARNED: dict[type[GeneratedSite], dict[str, str]] = {
    Calendar: {"/events/#/#/#": "last"},
    SessionIds: {"?s_id9": "dropped"},
    Orders: {"?sort": "dropped", "?view": "dropped"},
    GrowingPaths: {"/a/*": "open", "/a/*/*/*": "last"},
    SoftErrors: {"/a/*": "last"},
    AnyHost: {"host": "dropped"},
    Shop: {"?sort": "dropped", "?brand": "open", "/p/*": "open"},
    Forum: {"?post": "last", "/f": "open"},
    Wiki: {"/wiki/*": "last"},
    News: {"/#/#": "last", "/#/#/#/*": "open"},
}
"""Verdicts on some families after 3 000 fetches that change no link."""


def _cases(kinds: tuple[type[GeneratedSite], ...]) -> list[object]:
    return [
        pytest.param(kind, seed, id=f"{kind.name} {seed}")
        for kind in kinds
        for seed in ((1,) if kind.is_honest else SEEDS)
    ]


def _table(families: FamilyTable) -> dict[int, tuple[object, ...]]:
    return {
        each.key: (
            *(each.verdict, each.eq, each.ne, each.is_confirmed, each.missing, each.releases),
            *(getattr(each.counts, name) for name in YIELDS),
        )
        for each in families
    }


def _model_table(model: GuardModel) -> dict[int, tuple[object, ...]]:
    return {
        each.key: (
            *(each.verdict, each.eq, each.ne, each.confirmed, each.missing, each.releases),
            *(each.seen[name] for name in YIELDS),
        )
        for each in model.families
    }


@pytest.mark.parametrize("acts", [False, True], ids=["watch", "on"])
@pytest.mark.parametrize(("kind", "seed"), _cases((*TRAPS, *HONEST)))
def test_sketch_judges_as_the_model(kind: type[GeneratedSite], seed: int, *, acts: bool) -> None:
    """A sketch that is packed after each batch has all counters and verdicts of the model."""
    crawl, raw = ModelCrawl(kind(seed), BUDGET, acts=acts), b""
    for votes in crawl.batches():
        sketch = unpack(raw)
        sketch.merge(votes, NOW, asks=acts)
        raw = pack(sketch, 1)
        assert len(raw) <= MOST_BYTES
        assert _table(unpack(raw).families) == _model_table(crawl.model)


@pytest.mark.parametrize("kind", LEARNED, ids=lambda kind: kind.name)
def test_model_learns_the_traps_and_spares_what_is_honest(kind: type[GeneratedSite]) -> None:
    """The model itself comes to the verdicts that a reader of the site expects."""
    crawl = ModelCrawl(kind(), BUDGET, acts=False)
    for _ in crawl.batches():
        pass
    verdicts = crawl.model.verdicts
    assert {name: verdicts[name] for name in LEARNED[kind]} == LEARNED[kind]


@pytest.mark.parametrize("kind", [Shop, Forum, Wiki, ManyStubs, News], ids=lambda kind: kind.name)
def test_verdicts_lose_no_page_of_an_honest_site(kind: type[GeneratedSite]) -> None:
    """A crawl that acts on all verdicts fetches every page that is worth having."""
    crawl = ModelCrawl(kind(), 12_000, acts=True)
    for _ in crawl.batches():
        pass
    assert len(crawl.truths) == kind().size


@pytest.mark.parametrize("kind", [News, Versions, Languages], ids=lambda kind: kind.name)
def test_a_later_crawl_loses_no_page_either(kind: type[GeneratedSite]) -> None:
    """Its pages have known texts, but each of them is the page that has brought its text."""
    model = None
    for _ in range(2):
        crawl = ModelCrawl(kind(), 12_000, acts=True, model=model)
        for _ in crawl.batches():
            pass
        model = crawl.model
    assert len(crawl.truths) == kind().size


def test_a_parameter_that_only_orders_lists_is_refused_in_the_last_band() -> None:
    """A crawl that acts on verdicts ends, although the site has addresses without an end."""
    crawl = ModelCrawl(Orders(), BUDGET, acts=True)
    for _ in crawl.batches():
        pass
    assert crawl.model.verdicts["?view"] == "refused"
    assert len(crawl.truths) == Orders().size
    assert crawl.fetches < BUDGET
