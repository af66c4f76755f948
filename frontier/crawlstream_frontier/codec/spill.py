"""Records of ``<prefix>.overflow``: links of one page, as they are written and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from crawlstream.model.effects import Links, Spill
from crawlstream_frontier.codec.links import (
    GROUPS_PER_CALL,
    LINKS_PER_CALL,
    Inheritance,
    Lot,
    flatten,
    split_links,
)
from crawlstream_frontier.codec.values import none_as, pack, unpack

LINKS_PER_RECORD = 500
BYTES_PER_RECORD = 256 * 1024
"""Maximum size of a record, unless one entry is larger: a script recalls several records."""
BYTES_PER_CALL = 512 * 1024
"""Maximum size of the records in one script, so that a script does not fill a small Redis."""
_VERSION = 1
_FIELDS = (int, bytes, bytes, int, bytes, int, int, int, list)
_GROUP_FIELDS = (bytes, int, bytes, bool, list, list)


def pack_spills(
    worker: str, spiderid: str, token: str, *, links: Sequence[Links], inherited: Inheritance
) -> list[Spill]:
    """Pack the children of a held page as records for Kafka."""
    spills = []
    encoded = [replace(group, entries=[*group.entries]) for group in links]
    for chunk, groups in enumerate(parts_of(encoded, LINKS_PER_RECORD)):
        record = [
            _VERSION,
            worker,
            token,
            chunk,
            inherited.crawl,
            inherited.run,
            none_as(inherited.domain_max_pages),
            none_as(inherited.max_pages),
            [_group(*group) for group in inherited.with_headers(groups, spiderid)],
        ]
        spills.append(Spill(chunk, _size(groups), pack(record)))
    return spills


def _group(lot: Lot, domain: object, fingerprints: object, entries: object) -> list[object]:
    priority, spider, counts, _ = lot
    return [domain, priority, spider, counts, fingerprints, entries]


def parts_of(links: Sequence[Links], most: int) -> Iterator[list[Links]]:
    """Yield links in lists of at most ``most`` links, and of bounded size."""
    for groups in split_links(links, most):
        size = sum(len(entry) for group in groups for entry in group.entries)
        if size > BYTES_PER_RECORD and _size(groups) > 1:
            yield from parts_of(groups, (_size(groups) + 1) // 2)
        else:
            yield groups


def _size(groups: Sequence[Links]) -> int:
    return sum(len(group.entries) for group in groups)


@dataclass(frozen=True, slots=True)
class SpillRecord:
    """A record of the topic: the children of one page, or some of them."""

    offset: int
    size: int
    """Size of its value, in bytes."""
    links: int
    groups: int
    fields: Sequence[object]
    """As ``recall.lua`` takes them."""

    @property
    def weight(self) -> float:
        """Share of the capacity of one script that the record takes."""
        return max(
            self.links / LINKS_PER_CALL,
            self.groups / GROUPS_PER_CALL,
            self.size / BYTES_PER_CALL,
        )


def read_spill(offset: int, value: bytes | None) -> SpillRecord:
    """Check a record before the frontier uses it; ValueError gives the fault."""
    try:
        fields = unpack(value)
    except Exception as error:
        raise ValueError(f"not a packed value: {error}") from error
    if not _fits(fields, _FIELDS) or fields[0] != _VERSION:
        raise ValueError(f"not a spilled record of version {_VERSION}")
    for group in fields[-1]:
        if not _fits(group, _GROUP_FIELDS) or len(group[-1]) != len(group[-2]):
            raise ValueError("not a group of links")
        if not all(isinstance(part, bytes) for part in (*group[-1], *group[-2])):
            raise ValueError("not a list of links")
    *fields, groups = fields[1:]
    links = flatten(
        ((priority, spider, counts, ""), domain, fingerprints, entries)
        for domain, priority, spider, counts, fingerprints, entries in groups
    )
    size = sum(len(group[-1]) for group in groups)
    return SpillRecord(offset, len(value or b""), size, len(groups), [*fields, links])


def _fits(values: object, kinds: Sequence[type]) -> bool:
    return (
        isinstance(values, list)
        and len(values) == len(kinds)
        and all(type(value) is kind for value, kind in zip(values, kinds, strict=True))
    )
