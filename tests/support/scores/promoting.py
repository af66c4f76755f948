"""Promotion of waiting pages, as the plain model of the frontier believes in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from crawlstream_frontier.link_rules.promotion import ACROSS, WITHIN, in_tens
from crawlstream_frontier.waste.last_band import lifted
from support.frontier.values import Item

if TYPE_CHECKING:
    from support.frontier.model import Model

HIGHEST_OF_LAST = -7_500


def see(model: Model, group: Mapping[str, Item], *, is_third: bool, is_within: bool) -> None:
    """Count links of pages that wait; promote those with three."""
    for fingerprint, item in group.items():
        page, listed = (item.domain, fingerprint), item.of.listed
        if listed.get(page) not in {1, 2}:
            continue
        listed[page] = 3 if is_third else listed[page] + 1
        if listed[page] == 3:
            raised = in_tens(item.priority) + (WITHIN if is_within else ACROSS)
            model.enqueue(replace(item, priority=raised, mark=fingerprint), None)


def end_copies(model: Model, queue: deque[Item], amount: int) -> None:
    """End the first entries of a band, of pages that were leased by other entries."""
    for _ in range(amount):
        item = queue.popleft()
        assert item.is_over, item
        model.move_head(item, -1)
        item.of.ledger["queued"] -= 1
        item.of.ledger["redirected"] += 1


def has_page(queue: deque[Item], head: int | None) -> bool:
    """Return whether the head of a band has an entry whose page was not leased."""
    return any(not item.is_over for item in islice(queue, head))


def claim_of(priority: int) -> int:
    """Return the priority by which a domain ranks among others."""
    is_within = priority % 10 == WITHIN % 10 and priority > HIGHEST_OF_LAST
    return priority - WITHIN if is_within else lifted(priority)


def may_rise(model: Model, spider: str, domain: str) -> bool:
    """Return whether the claim of a domain may be above what it had when it was served.

    Only last bands wait, or the page that was leased had been promoted within the domain.
    """
    bands = model.open_bands(spider, domain)
    if any(model.world.scores[of.crawl] for of, _ in bands):
        return True
    priorities = {priority for _, priority in bands}
    return bool(priorities) and all(lifted(one) != one for one in priorities)


def check_nothing_better(model: Model, spider: str, names: set[str], now: int, worst: int) -> None:
    """No domain that surely allows a request has anything of a claim above ``worst``."""
    for name in names:
        top = model.top_claim(spider, name)
        if top is not None and top > worst:
            assert not model.allowance(name, now, is_sure=True), ("left behind", name, top)
