"""Links on their way into the scripts: one flat list, for what Lua unpacks costs a table a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from crawlstream.keys import encode_id
from crawlstream.model.effects import Links
from crawlstream.model.partitions.messages import LinkOrigin

LINKS_PER_CALL = 1_000
"""Links in one script: keeps the longest call near 5 ms."""
GROUPS_PER_CALL = 250
"""Groups of them, each of one domain and priority, for the same reason: one that brings a new
domain takes as long as ten links. Others do not count where a worker knows that they do not."""


Lot = tuple[object, object, object, object]
"""Priority, spider, whether they count, and their site, or '' where that is their domain."""
Group = tuple[Lot, object, Sequence[object], Sequence[object]]
"""Links of one lot and domain: their fingerprints and their entries, in parallel."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What the children of a held page inherit: crawl and run, profile's number, page limits."""

    crawl: bytes
    """The crawl's number, and its run: they say where the children belong that are spilled."""
    run: int
    number: int
    domain_max_pages: int | None
    max_pages: int | None
    origin: LinkOrigin | None = None
    """What children in other partitions inherit; None where there are none."""

    def with_headers(self, links: Iterable[Links], own_spider: str) -> Iterator[Group]:
        """Groups of children, each entry with its header."""
        header = b"%d," % self.number
        for group in links:
            spider = encode_id(group.spiderid or own_spider)
            entries = [header + entry for entry in group.entries]
            yield (
                (group.priority, spider, group.counts, group.site or ""),
                group.domain,
                group.fingerprints,
                entries,
            )

    def pack_links(self, links: Iterable[Links], own_spider: str) -> list[object]:
        """Children as `admit.lua` takes them."""
        return flatten(self.with_headers(links, own_spider))


def flatten(groups: Iterable[Group]) -> list[object]:
    """Groups of links as the one flat list that `admit.lua` describes: lot after lot."""
    lots: dict[Lot, list[object]] = {}
    sizes: Counter[Lot] = Counter()
    for lot, domain, fingerprints, entries in groups:
        if entries:
            sizes[lot] += 1
            lots.setdefault(lot, []).extend((domain, len(entries), *fingerprints, *entries))
    return [part for lot, flat in lots.items() for part in (*lot, sizes[lot], *flat)]


def split_links(
    links: Sequence[Links], size: int, new: Collection[str] | None = None
) -> Iterator[list[Links]]:
    """The same links in the same order, in lists of at most ``size`` and GROUPS_PER_CALL groups.

    Where it is known which domains are ``new``, lists have at most so many of these, instead.
    """
    groups: list[Links] = []
    brought: set[str] = set()
    room = size
    for group in links:
        start = 0
        while start < len(group.entries):
            part = _slice(group, start, start + room)
            groups.append(part)
            start += len(part.entries)
            room -= len(part.entries)
            if new is not None and part.domain in new:
                brought.add(part.domain)
            if room == 0 or len(groups if new is None else brought) == GROUPS_PER_CALL:
                yield groups
                groups, brought, room = [], set(), size
    if groups:
        yield groups


def _slice(group: Links, start: int, end: int) -> Links:
    if start == 0 and end >= len(group.entries):
        return group
    return Links(
        domain=group.domain,
        priority=group.priority,
        spiderid=group.spiderid,
        counts=group.counts,
        fingerprints=group.fingerprints[start:end],
        entries=group.entries[start:end],
    )
