"""Records of the two topics of links: what both have in common, and batches of them for scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from crawlstream.model.effects import Links
from crawlstream_frontier.codec.links import GROUPS_PER_CALL, LINKS_PER_CALL, split_links

LINKS_PER_RECORD = 500
BYTES_PER_RECORD = 256 * 1024
"""Maximum size of a record, unless one entry is larger: a script takes several records."""
BYTES_PER_CALL = 512 * 1024
"""Maximum size of the records in one script, so that a script does not fill a small Redis."""


def split_by_record(links: Sequence[Links], most: int = LINKS_PER_RECORD) -> Iterator[list[Links]]:
    """Yield links in lists for one record each: of at most ``most`` links, and of bounded size."""
    for groups in split_links(links, most):
        size, amount = _bytes_of(groups), amount_of(groups)
        if size > BYTES_PER_RECORD and amount > 1:
            yield from split_by_record(groups, (amount + 1) // 2)
        else:
            yield groups


def _bytes_of(groups: Sequence[Links]) -> int:
    return sum(len(entry) for group in groups for entry in group.entries)


def amount_of(groups: Sequence[Links]) -> int:
    """Return the number of links in some groups."""
    return sum(len(group.entries) for group in groups)


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """A record of links, as it was read and checked."""

    offset: int
    size: int
    """Size of its value, in bytes."""
    links: int
    domains: Sequence[object]
    """Domain of each group."""
    head: tuple[object, ...]
    """Fields that all links share, as the script takes them; such records may be joined."""
    flat: list[object]
    """The links, as ``admit.lua`` takes them."""


@dataclass(frozen=True, slots=True)
class LinkBatch:
    """Consecutive records of one Kafka partition: offsets from ``start`` up to ``next``."""

    topic_id: str
    kafka_partition: int
    start: int
    next: int
    records: Sequence[LinkRecord]

    @property
    def place(self) -> list[object]:
        """Topic, Kafka partition and offsets, as scripts take them."""
        return [self.topic_id, self.kafka_partition, self.start, self.next]

    def parts(self) -> Iterator[LinkBatch]:
        """Cut into batches that a script takes at once; they leave no offset uncovered.

        Many records fit if they share a head and lead to the same domains.
        """
        start, part = self.start, list[LinkRecord]()
        links = groups = size = 0
        known = defaultdict[object, set[object]](set)
        for record in self.records:
            links, size = links + record.links, size + record.size
            domains = set(record.domains)
            groups += len(domains - known[record.head])
            shares = links / LINKS_PER_CALL, groups / GROUPS_PER_CALL, size / BYTES_PER_CALL
            if part and max(shares) > 1:
                yield replace(self, start=start, next=record.offset, records=part)
                start, part = record.offset, []
                links, groups, size = record.links, len(domains), record.size
                known.clear()
            part.append(record)
            known[record.head] |= domains
        yield replace(self, start=start, records=part)
