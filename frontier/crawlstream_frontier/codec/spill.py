"""Records of ``<prefix>.overflow``: links of one page, as they are written and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crawlstream.model.effects import Links, Spill
from crawlstream_frontier.codec.link_batch import LinkRecord, amount_of, split_by_record
from crawlstream_frontier.codec.links import Inheritance, Lot, flatten
from crawlstream_frontier.codec.values import none_as, pack, unpack
from crawlstream_frontier.link_rules.host_budgets import TEXT

_VERSION = 1
_FIELDS = (int, bytes, bytes, int, bytes, int, int, int, list)
_GROUP_FIELDS = (bytes, int, bytes, object, list, list)


def pack_spills(
    worker: str, spiderid: str, token: str, *, links: Sequence[Links], inherited: Inheritance
) -> list[Spill]:
    """Pack the children of a held page as records for Kafka."""
    spills = []
    encoded = [replace(group, entries=[*group.entries]) for group in links]
    for chunk, groups in enumerate(split_by_record(encoded)):
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
        spills.append(Spill(chunk, amount_of(groups), pack(record)))
    return spills


def _group(lot: Lot, domain: object, fingerprints: object, entries: object) -> list[object]:
    """Return a group as it is spilled; its pages are not promoted by links."""
    priority, spider, counts, _ = lot
    counts = f"0{counts[1:]}" if isinstance(counts, str) else bool(counts)
    return [domain, priority, spider, counts, fingerprints, entries]


def read_spill(offset: int, value: bytes | None) -> LinkRecord:
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
        if type(group[3]) is not bool and not _is_text(group[3]):
            raise ValueError("not a group of links")
        if not all(isinstance(part, bytes) for part in (*group[-1], *group[-2])):
            raise ValueError("not a list of links")
    *fields, groups = fields[1:]
    links = flatten(
        ((priority, spider, counts, ""), domain, fingerprints, entries)
        for domain, priority, spider, counts, fingerprints, entries in groups
    )
    amount = sum(len(group[-1]) for group in groups)
    domains = [group[0] for group in groups]
    return LinkRecord(offset, len(value or b""), amount, domains, tuple(fields), links)


def _fits(values: object, kinds: Sequence[type]) -> bool:
    return (
        isinstance(values, list)
        and len(values) == len(kinds)
        and all(kind in (type(value), object) for value, kind in zip(values, kinds, strict=True))
    )


def _is_text(counts: object) -> bool:
    return isinstance(counts, bytes) and TEXT.fullmatch(counts) is not None
