"""Links as arguments of scripts: one flat list, because Lua creates a table for each list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from crawlstream.errors import InvalidUrl
from crawlstream.keys import encode_id
from crawlstream.model.crawl import Profile
from crawlstream.model.effects import Links
from crawlstream.model.partitions.messages import LinkOrigin
from crawlstream.model.url import domain_key, host_of
from crawlstream_frontier.link_rules.host_budgets import counts_of

LINKS_PER_CALL = 1_000
"""Maximum of links in one script; keeps the longest call near 5 ms."""
GROUPS_PER_CALL = 250
"""Maximum of groups in one script, each of one domain and priority, for the same reason: a group
with a new domain takes as long as ten links. If a worker knows the new domains, only they count."""


Lot = tuple[object, object, object, object]
"""Priority, spider, whether the links count (``counts_of``), and their site ('' if none)."""
Group = tuple[Lot, object, Sequence[object], Sequence[object]]
"""Links of one lot and domain: their fingerprints and their entries, in parallel."""


Metered = tuple[str, int, float]
"""Domain whose pages have budgets: its name, most bytes and share of failed pages, 0 for none."""


def metered_of(profile: Profile, url: str) -> Metered | None:
    """Return domain and budgets that the end of a page counts for; None: it has none."""
    if not (profile.domain_max_bytes or profile.domain_max_failed_share):
        return None
    domain = domain_of(url)
    if not domain:
        return None
    return domain, profile.domain_max_bytes or 0, profile.domain_max_failed_share or 0


def domain_of(url: str) -> str:
    """Return the domain of a page, by which it is deduplicated; "" for an invalid URL."""
    try:
        return domain_key(host_of(url))
    except InvalidUrl:
        return ""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Values that the children of a held page inherit: crawl, run, profile number, page limits."""

    crawl: bytes
    """Number of the crawl. With ``run``, it identifies the crawl of children that are spilled."""
    run: int
    number: int
    domain_max_pages: int | None
    max_pages: int | None
    origin: LinkOrigin | None = None
    """Origin of children in other partitions; None with one partition."""
    metered: Metered | None = None
    """Domain and budgets that the end of the page itself counts for."""

    def with_headers(self, links: Iterable[Links], own_spider: str) -> Iterator[Group]:
        """Yield groups of children, each entry with its header."""
        header = b"%d," % self.number
        for group in links:
            spider = encode_id(group.spiderid or own_spider)
            entries = [header + entry for entry in group.entries]
            yield (
                (group.priority, spider, counts_of(group, group.linked), group.site or ""),
                group.domain,
                group.fingerprints,
                entries,
            )

    def pack_links(self, links: Iterable[Links], own_spider: str) -> list[object]:
        """Return children as `admit.lua` takes them."""
        return flatten(self.with_headers(links, own_spider))


def flatten(groups: Iterable[Group]) -> list[object]:
    """Return groups of links as the flat list that `admit.lua` describes: lot after lot."""
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
    """Yield links in their order, in lists of at most ``size`` links and GROUPS_PER_CALL groups.

    If the ``new`` domains are given, at most GROUPS_PER_CALL of them are in a list; the number of
    groups has no limit then.
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
        linked=group.linked,
        standing=group.standing,
        fingerprints=group.fingerprints[start:end],
        entries=group.entries[start:end],
    )
