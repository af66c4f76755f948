"""Promotion of waiting pages, as the plain model of the frontier believes in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from crawlstream.keys import encode_id
from crawlstream.model.effects import FOUND_AGAIN
from crawlstream_frontier.link_rules.promotion import ACROSS, WITHIN, in_tens
from crawlstream_frontier.waste.last_band import lifted
from support.frontier.values import Found, Item, Listed

if TYPE_CHECKING:
    from support.frontier.model import Model

HIGHEST_OF_LAST = -7_500
PROMOTED = 3
"""Links of a page that was promoted."""


def enter(item: Item, fingerprint: str, weight: int) -> None:
    """List a page that begins to wait, but not in a last band."""
    if item.priority <= HIGHEST_OF_LAST:
        return
    item.mark = fingerprint
    item.of.listed[item.domain, fingerprint] = Listed(item.depth, _spider_in(item), weight)


def leave(item: Item) -> None:
    """Let a page that is granted wait no more; it has the least depth of the links to it."""
    if item.mark:
        item.depth = item.of.listed.pop((item.domain, item.mark)).depth
        item.mark = None


def _spider_in(item: Item) -> str:
    return "" if item.spider == item.of.crawl.spiderid else f" {encode_id(item.spider)}"


def see(model: Model, group: Sequence[tuple[str, Item]], found: Found) -> None:
    """Count links of pages that wait; promote those with three, and move those that are nearer."""
    is_third, is_within = found.linked == FOUND_AGAIN, found.source == group[0][1].domain
    for fingerprint, item in group:
        page = item.of.listed.get((item.domain, fingerprint))
        if page is None or page.spider != _spider_in(item):
            continue
        was_promoted, below = page.links == PROMOTED, max(item.depth - page.depth, 0)
        rises = found.weight > 0 and (is_third or page.links > 1)
        page.links = PROMOTED if rises or was_promoted else page.links + found.weight
        if (page.links == PROMOTED and not was_promoted) or item.depth < page.depth:
            page.depth, page.has_several = min(item.depth, page.depth), True
            priority = in_tens(item.priority) + 10 * below
            if page.links == PROMOTED:
                priority += WITHIN if is_within else ACROSS
            copy = replace(item, priority=priority, mark=fingerprint, depth=page.depth)
            model.enqueue(copy, None)


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


def note_risen(model: Model, spider: str, items: Sequence[Item], risen: set[str]) -> None:
    """Note domains that may rank too low until their next turn, after these items were granted.

    Redis finds out later that a band has become empty. The next one may have a better claim: the
    last band, or the one below pages that were promoted within the domain.
    """
    served: dict[str, int] = {}
    for item in items:
        claim = claim_of(item.priority) + item.of.shift
        served[item.domain] = min(served.get(item.domain, claim), claim)
    risen.difference_update(served)
    tops = {name: model.top_claim(spider, name) for name in served}
    risen |= {name for name, top in tops.items() if top is not None and top > served[name]}


def check_nothing_better(model: Model, spider: str, names: set[str], now: int, worst: int) -> None:
    """No domain that surely allows a request has anything of a claim above ``worst``."""
    for name in names:
        top = model.top_claim(spider, name)
        if top is not None and top > worst:
            assert not model.allowance(name, now, is_sure=True), ("left behind", name, top)
