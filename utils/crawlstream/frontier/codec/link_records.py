"""Records of ``<prefix>.links``: links of pages to the domains of other partitions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from crawlstream.frontier.codec.links import LINKS_PER_CALL, Group, Lot, flatten
from crawlstream.frontier.codec.spill import LINKS_PER_RECORD, parts_of
from crawlstream.frontier.codec.values import none_as, pack, unpack
from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.effects import Links
from crawlstream.model.partitions.messages import LinkOrigin

_VERSION = 4
_KINDS = (int, bytes, int, int, int, bytes, int, int, list)
_LOT = 5
_MOST_PRIORITY = 10**6
_LARGEST = 2**53
"""Lua counts in doubles."""
_NAME = re.compile(rb"[!-9;-~]*:[!-9;-~]*:[!-9;-~]*")
"""Of a crawl: three ids without anything that separates them."""
_WORD = re.compile(rb"[^\s@/]+")
"""Of a spider; a site or domain may have any letter but blanks."""
_DOMAIN = re.compile(rb"[^\s]+")
_HASH = re.compile(rb"[0-9a-f]{16}")
_FINGERPRINT = re.compile(rb"0|-?[1-9][0-9]{0,18}")


Kind = tuple[Lot, object]
"""What some links have in common: their lot, and their domain."""
_Links = tuple[list[object], list[object]]
"""Fingerprints and entries, in parallel."""


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """A record of the topic: links of some pages, to one partition."""

    offset: int
    size: int
    """Of its value, in bytes."""
    links: int
    head: tuple[object, ...]
    """What all of them have in common, as ``apply.lua`` takes it."""
    groups: Mapping[Kind, _Links]


def pack_links(origin: LinkOrigin, links: Sequence[Links]) -> list[bytes]:
    """Links of pages with the same origin, to one partition, as records of a bounded size."""
    head = [
        _VERSION,
        FrontierKeys.crawl_field(origin.context.crawl),
        origin.context.generation,
        *origin.version,
        origin.profile,
        none_as(origin.domain_max_pages),
        none_as(origin.max_pages),
    ]
    encoded = [replace(group, entries=[*group.entries]) for group in links]
    return [
        pack([*head, _flat(groups, origin.spiderid)])
        for groups in parts_of(encoded, LINKS_PER_RECORD)
    ]


def _flat(links: Sequence[Links], own_spider: str) -> list[object]:
    return flatten(
        (
            (group.priority, encode_id(group.spiderid or own_spider), group.counts, ""),
            group.domain,
            group.fingerprints,
            group.entries,
        )
        for group in links
    )


def read_links(offset: int, value: bytes | None) -> LinkRecord:
    """Check a record before the frontier relies on it; ValueError says what is wrong with it."""
    try:
        fields = unpack(value)
    except Exception as error:
        raise ValueError(f"not a packed value: {error}") from error
    if not isinstance(fields, list) or [*map(type, fields)] != [*_KINDS] or fields[0] != _VERSION:
        raise ValueError(f"not a record of links of version {_VERSION}")
    _, name, *numbers, profile, domain_cap, crawl_cap, flat = fields
    if not _NAME.fullmatch(name) or not _HASH.fullmatch(profile):
        raise ValueError("not the name of a crawl, or not the hash of a profile")
    if not all(0 <= n < _LARGEST for n in numbers) or min(domain_cap, crawl_cap) < -1:
        raise ValueError("a number that cannot be")
    groups = _joined(_groups_in(flat))
    links = sum(len(entries) for _, entries in groups.values())
    if not 1 <= links <= LINKS_PER_CALL:
        raise ValueError(f"{links} links; a record has 1 to {LINKS_PER_CALL}")
    return LinkRecord(offset, len(value or b""), links, tuple(fields[1:-1]), groups)


def join_links(records: Iterable[LinkRecord]) -> list[object]:
    """Records as ``apply.lua`` takes them: those with one head as one, with one group a kind."""
    heads = defaultdict[tuple[object, ...], list[LinkRecord]](list)
    for record in records:
        heads[record.head].append(record)
    return [[*head, flatten(_groups_of(alike))] for head, alike in heads.items()]


def _groups_of(records: Sequence[LinkRecord]) -> Iterator[Group]:
    groups = ((*kind, *links) for record in records for kind, links in record.groups.items())
    return ((*kind, *links) for kind, links in _joined(groups).items())


def _joined(groups: Iterable[tuple[Lot, object, list[object], list[object]]]) -> dict[Kind, _Links]:
    """Groups by kind, in the order in which the first of each came."""
    joined: dict[Kind, _Links] = {}
    for lot, domain, fingerprints, entries in groups:
        known = joined.get(kind := (lot, domain))
        links = fingerprints, entries
        joined[kind] = links if known is None else (known[0] + links[0], known[1] + links[1])
    return joined


def _groups_in(
    flat: list[object],
) -> Iterator[tuple[Lot, object, list[object], list[object]]]:
    """All groups; ValueError: something is not as ``admit.lua`` takes it."""
    at = 0
    while at < len(flat):
        groups = _groups_of_lot(flat, at)
        priority, spider, counts, site = flat[at : at + _LOT - 1]
        at += _LOT
        for _ in range(groups):
            size = _size_of_group(flat, at)
            first, end = at + 2 + size, at + 2 + 2 * size
            yield (priority, spider, counts, site), flat[at], flat[at + 2 : first], flat[first:end]
            at = end


def _groups_of_lot(flat: Sequence[object], at: int) -> int:
    priority, spider, counts, site, groups = [*flat[at : at + _LOT], *[None] * _LOT][:_LOT]
    if (
        type(priority) is not int
        or not isinstance(spider, bytes)
        or type(counts) is not bool
        or not isinstance(site, bytes)
        or type(groups) is not int
    ):
        raise ValueError(f"not a lot of links, at {at}")
    is_named = _WORD.fullmatch(spider) and (not site or _DOMAIN.fullmatch(site))
    if not is_named or abs(priority) > _MOST_PRIORITY or not 1 <= groups <= LINKS_PER_CALL:
        raise ValueError(f"not a lot of links, at {at}")
    return groups


def _size_of_group(flat: Sequence[object], at: int) -> int:
    domain, size = [*flat[at : at + 2], None, None][:2]
    if not isinstance(domain, bytes) or not _DOMAIN.fullmatch(domain):
        raise ValueError(f"not a domain, at {at}")
    if type(size) is not int or not 1 <= size <= LINKS_PER_CALL:
        raise ValueError(f"not a number of links, at {at + 1}")
    links = flat[at + 2 : at + 2 + 2 * size]
    if len(links) < 2 * size or not all(isinstance(part, bytes) and part for part in links):
        raise ValueError(f"fewer links than announced, or an empty one, at {at + 2}")
    if not all(_FINGERPRINT.fullmatch(part) for part in links[:size] if isinstance(part, bytes)):
        raise ValueError(f"not a fingerprint, at {at + 2}")
    return size
