"""Records of ``<prefix>.links``: links of pages to the domains of other partitions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.effects import FOUND, FOUND_AGAIN, FOUND_EARLY, Links
from crawlstream.model.partitions.messages import LinkOrigin
from crawlstream_frontier.codec.link_batch import LinkRecord, split_by_record
from crawlstream_frontier.codec.links import LINKS_PER_CALL, Lot, flatten
from crawlstream_frontier.codec.values import none_as, pack, unpack
from crawlstream_frontier.link_rules.host_budgets import TEXT, counts_of

_VERSION = 4
_LINKED = (FOUND, FOUND_AGAIN, FOUND_EARLY)
_KINDS = (int, bytes, int, int, int, bytes, int, int, list)
_LOT = 5
_MOST_PRIORITY = 10**6
_LARGEST = 2**53
"""Lua uses doubles."""
_NAME = re.compile(rb"[!-9;-~]*:[!-9;-~]*:[!-9;-~]*")
"""Name of a crawl: three ids, which do not contain separators."""
_WORD = re.compile(rb"[^\s@/]+")
"""Name of a spider; a site or domain may have any character except blanks."""
_DOMAIN = re.compile(rb"[^\s]+")
_HASH = re.compile(rb"[0-9a-f]{16}")
_NUMBER = rb"(?:0|-?[1-9][0-9]{0,18})"
_FINGERPRINT = re.compile(rb"%b(?: %b)?" % (_NUMBER, _NUMBER))
"""Fingerprint of a link; a redirect from a seed has its own and the one of its page."""


_Links = tuple[list[object], list[object]]
"""Fingerprints and entries, in parallel."""


def pack_links(origin: LinkOrigin, links: Sequence[Links]) -> list[bytes]:
    """Pack links of pages with the same origin, to one partition, as records of bounded size."""
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
    return [pack([*head, _flat(groups, origin.spiderid)]) for groups in split_by_record(encoded)]


def _flat(links: Sequence[Links], own_spider: str) -> list[object]:
    return flatten(
        (
            (
                *(group.priority, encode_id(group.spiderid or own_spider)),
                *(counts_of(group, group.linked), ""),
            ),
            group.domain,
            group.fingerprints,
            group.entries,
        )
        for group in links
    )


def read_links(offset: int, value: bytes | None) -> LinkRecord:
    """Check a record before the frontier uses it; ValueError gives the fault."""
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
    groups = [*_groups_in(flat)]
    links = sum(size for _, size in groups)
    if not 1 <= links <= LINKS_PER_CALL:
        raise ValueError(f"{links} links; a record has 1 to {LINKS_PER_CALL}")
    domains = [domain for domain, _ in groups]
    return LinkRecord(offset, len(value or b""), links, domains, tuple(fields[1:-1]), flat)


def _groups_in(flat: list[object]) -> Iterator[tuple[object, int]]:
    """Yield domain and number of links of each group.

    ValueError: the list does not have the form that ``admit.lua`` requires.
    """
    at = 0
    while at < len(flat):
        groups = _groups_of_lot(flat, at)
        at += _LOT
        for _ in range(groups):
            size = _size_of_group(flat, at)
            yield flat[at], size
            at += 2 + 2 * size


def join_links(records: Iterable[LinkRecord]) -> list[object]:
    """Return records as ``apply.lua`` takes them.

    Records with the same head are joined, with one group per domain, if their domains occur twice
    on average: then Redis saves more time than joining takes here.
    """
    heads = defaultdict[tuple[object, ...], list[LinkRecord]](list)
    for record in records:
        heads[record.head].append(record)
    return [[*head, flat] for head, alike in heads.items() for flat in _joined(alike)]


def _joined(records: Sequence[LinkRecord]) -> list[list[object]]:
    domains = [domain for record in records for domain in record.domains]
    if len({*domains}) > len(domains) / 2:
        return [record.flat for record in records]
    return [_one_of([record.flat for record in records])]


def _one_of(flats: Sequence[list[object]]) -> list[object]:
    lots = defaultdict[Lot, dict[object, _Links]](dict)
    for flat in flats:
        at = 0
        while at < len(flat):
            priority, spider, counts, site, groups = flat[at : at + _LOT]
            domains = lots[priority, spider, counts, site]
            at += _LOT
            for _ in range(cast(int, groups)):
                domain, first = flat[at], at + 2
                middle = first + cast(int, flat[at + 1])
                at = middle + middle - first
                fingerprints, entries = flat[first:middle], flat[middle:at]
                if known := domains.get(domain):
                    known[0].extend(fingerprints)
                    known[1].extend(entries)
                else:
                    domains[domain] = fingerprints, entries
    return flatten(
        (lot, domain, *links) for lot, domains in lots.items() for domain, links in domains.items()
    )


def _groups_of_lot(flat: Sequence[object], at: int) -> int:
    priority, spider, counts, site, groups = [*flat[at : at + _LOT], *[None] * _LOT][:_LOT]
    if (
        type(priority) is not int
        or not isinstance(spider, bytes)
        or not _are_counts(counts)
        or not isinstance(site, bytes)
        or type(groups) is not int
    ):
        raise ValueError(f"not a lot of links, at {at}")
    is_named = _WORD.fullmatch(spider) and (not site or _DOMAIN.fullmatch(site))
    if not is_named or abs(priority) > _MOST_PRIORITY or not 1 <= groups <= LINKS_PER_CALL:
        raise ValueError(f"not a lot of links, at {at}")
    return groups


def _are_counts(counts: object) -> bool:
    if isinstance(counts, bytes):
        return TEXT.fullmatch(counts) is not None
    return type(counts) is bool or counts in _LINKED


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
