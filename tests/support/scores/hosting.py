"""Host budgets, as the plain model of the frontier believes in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

from crawlstream.keys import encode_id
from crawlstream_frontier.link_rules.host_budgets import Standing, is_lower, lower, raised
from support.frontier.values import Generation, Host, Item
from support.scores.promoting import HIGHEST_OF_LAST

if TYPE_CHECKING:
    from support.frontier.model import Model

BITS = 64


def standing_of(item: Item, budget: tuple[int, int] | None) -> Standing | None:
    """Return what the links of a page say."""
    if budget is None:
        return None
    is_trusted, is_of_seed = is_trusted_in(item.of, item.domain), item.origin is not None
    return Standing(item.domain, budget, is_of_seed=is_of_seed, is_trusted=is_trusted)


def is_trusted_in(of: Generation, domain: str) -> bool:
    """Return whether the links of a domain's pages count; workers take ::1 for no URL's host."""
    host = of.hosts.get(domain, Host())
    return domain != "::1" and (host.is_of_seed or len(host.bits) > 1)


def note(model: Model, of: Generation, domain: str, standing: str) -> None:
    """Let links say what they say of their domain; pages that wait lower may get room by it."""
    if not standing:
        return
    said = standing.partition(" ")[0]
    host = of.hosts.get(domain, Host())
    before = host.is_of_seed, {*host.bits}
    host.is_of_seed |= said == "s"
    host.bits |= {int(said)} if said.isdecimal() else set()
    if (host.is_of_seed, host.bits) != before:
        of.hosts[domain] = host
        host.pages += _raise_pages(model, of, domain, room_in(host, standing))


def room_in(host: Host, standing: str) -> int:
    """Return how many more pages of a domain may wait in their own bands."""
    base, each = map(int, standing.split()[1:])
    links = -BITS * log((BITS - len(host.bits)) / BITS)
    return max(int(base + each * links) - host.pages, 0) if host.bits or host.is_of_seed else 0


def _raise_pages(model: Model, of: Generation, domain: str, room: int) -> int:
    bands = [
        (-priority, encode_id(spider), queue)
        for (spider, name), queues in model.queues.items()
        for (generation, priority), queue in queues.items()
        if (name, generation) == (domain, of) and is_lower(priority)
    ]
    left = room
    for _, _, queue in sorted(bands, key=lambda band: band[:2]):
        while queue and left:
            item = queue.popleft()
            item.priority = raised(item.priority)
            model.band_of(item).append(item)
            left -= 1
    return room - left


def enter(item: Item, standing: str) -> bool:
    """Find the band of a page that begins to wait; return whether it is its own one."""
    if not standing:
        return True
    host = item.of.hosts.get(item.domain, Host())
    if room_in(host, standing):
        host.pages += 1
        return True
    is_last = item.priority <= HIGHEST_OF_LAST
    item.priority = item.priority - 5 if is_last else lower(item.priority)
    return False


def text_of(host: Host, of_bits: Sequence[int] = range(BITS)) -> str:
    """Return what Redis has of a domain."""
    digits = "".join(
        format(sum(1 << place for place in range(4) if first + place in host.bits), "x")
        for first in of_bits[::4]
    )
    return f"{digits}{'s' if host.is_of_seed else '-'}{host.pages}"
