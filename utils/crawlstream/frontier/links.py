"""Links on their way into the scripts: one flat list, for what Lua unpacks costs a table a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from crawlstream.keys import encode_id
from crawlstream.model.effects import Links

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
