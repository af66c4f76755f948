"""Records of links between partitions: the same bytes for good, and nothing hostile is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Links
from crawlstream.model.partitions.messages import ContextKey, LinkOrigin, Version
from crawlstream_frontier.codec.link_batch import (
    BYTES_PER_RECORD,
    LINKS_PER_RECORD,
    LinkBatch,
    LinkRecord,
)
from crawlstream_frontier.codec.link_records import (
    join_links,
    pack_links,
    read_links,
)
from crawlstream_frontier.codec.links import GROUPS_PER_CALL, LINKS_PER_CALL

ORIGIN = LinkOrigin(
    context=ContextKey(CrawlKey("link", "app", "a crawl"), 2),
    version=Version(1_700_000_000, 7),
    spiderid="link",
    profile="0123456789abcdef",
    domain_max_pages=None,
    max_pages=10,
)
LINKS = [
    Links(domain="a.example", priority=40, fingerprints=["11", "-12"], entries=[b"k", b"l"]),
    Links(
        domain="ü.example",
        priority=-5,
        spiderid="wan der",
        counts=False,
        fingerprints=["5"],
        entries=[b"\x00m"],
    ),
]
GOLDEN = (
    b"\x99\x04\xb2link:app:a%20crawl\x02\xceeS\xf1\x00\x07\xb00123456789abcdef\xff\n\xdc\x00\x14"
    b"(\xa4link\xc3\xa0\x01\xa9a.example\x02\xa211\xa3-12\xa1k\xa1l"
    b"\xfb\xa9wan%20der\xc2\xa0\x01\xaa\xc3\xbc.example\x01\xa15\xa2\x00m"
)
"""Records that other versions have written, and will read."""


def test_a_record_has_these_bytes() -> None:
    """Another version must be able to read what this one writes."""
    assert pack_links(ORIGIN, LINKS) == [GOLDEN]


def test_a_record_says_what_was_packed() -> None:
    """Packs a record as `apply.lua` reads it, with its size for those who cut batches."""
    record = read_links(3, GOLDEN)
    assert (record.offset, record.size, record.links) == (3, len(GOLDEN), 3)
    assert record.domains == [b"a.example", "ü.example".encode()]
    ((name, *numbers, flat),) = _joined([record])
    assert name == b"link:app:a%20crawl"
    assert numbers == [2, 1_700_000_000, 7, b"0123456789abcdef", -1, 10]
    assert flat == [
        *(40, b"link", True, b"", 1, b"a.example", 2, b"11", b"-12", b"k", b"l"),
        *(-5, b"wan%20der", False, b"", 1, "ü.example".encode(), 1, b"5", b"\x00m"),
    ]


def test_links_to_one_domain_come_together() -> None:
    """Links of all records with one head, in their order; other heads have others."""
    first, second, stranger = (
        read_links(n, *pack_links(origin, [_links("a.x", f), _links("b.x", f + 1)]))
        for n, (origin, f) in enumerate(
            [(ORIGIN, 10), (ORIGIN, 20), (replace(ORIGIN, max_pages=9), 30)]
        )
    )
    lot = 1, b"link", True, b"", 2
    assert [each[-1] for each in _joined([first, stranger, second])] == [
        [
            *lot,
            *(b"a.x", 2, b"10", b"20", b"e10", b"e20"),
            *(b"b.x", 2, b"11", b"21", b"e11", b"e21"),
        ],
        [*lot, *(b"a.x", 1, b"30", b"e30"), *(b"b.x", 1, b"31", b"e31")],
    ]
    assert first == read_links(0, *pack_links(ORIGIN, [_links("a.x", 10), _links("b.x", 11)]))


def test_links_to_many_domains_stay_apart() -> None:
    """Keeps links to many domains unsorted, since sorting takes longer than it saves."""
    records = [
        read_links(n, *pack_links(ORIGIN, [_links("a.x", n), _links(f"{n}.x", n)])) for n in (1, 2)
    ]
    assert [each[-1] for each in _joined(records)] == [record.flat for record in records]


@pytest.mark.parametrize(
    ("domains", "most_links"), [(10, LINKS_PER_CALL), (40_000, GROUPS_PER_CALL)]
)
def test_a_script_takes_many_records_to_the_same_domains(domains: int, most_links: int) -> None:
    """It takes a number of links, and a number of domains; no offset is left out between calls."""
    random = Random(2)
    records = [
        read_links(
            10 + n,
            *pack_links(ORIGIN, [_links(f"{random.randrange(domains)}.x", f) for f in range(50)]),
        )
        for n in range(60)
    ]
    batch = LinkBatch(topic_id="t", kafka_partition=0, start=5, next=99, records=records)
    parts = [*batch.parts()]
    assert [record for part in parts for record in part.records] == records
    assert [part.start for part in parts] == [5, *(part.next for part in parts[:-1])]
    assert parts[-1].next == 99
    for part in parts[:-1]:
        links = sum(record.links for record in part.records)
        assert most_links - 50 <= links <= most_links + 5  # Some domains come twice.
        groups = [flat[4] for *_, flat in _joined(part.records)]
        assert groups == ([domains] if domains == 10 else [50] * len(part.records))


@pytest.mark.parametrize("size", [10, 2_000])
def test_records_have_a_bounded_size(size: int) -> None:
    """Many links make several records, none of them larger than a script takes."""
    many = Links(
        domain="a.example",
        priority=1,
        fingerprints=[str(n + 1) for n in range(1_200)],
        entries=[b"e" * size] * 1_200,
    )
    records = [read_links(n, value) for n, value in enumerate(pack_links(ORIGIN, [many]))]
    assert sum(record.links for record in records) == 1_200
    assert all(record.links <= LINKS_PER_RECORD for record in records)
    assert all(record.size < BYTES_PER_RECORD + 30_000 for record in records)


def test_no_links_are_no_record() -> None:
    """Sends no record to a partition that a page does not lead to."""
    assert pack_links(ORIGIN, []) == []


def _links(domain: str, fingerprint: int) -> Links:
    return Links(
        domain=domain,
        priority=1,
        fingerprints=[str(fingerprint)],
        entries=[b"e%d" % fingerprint],
    )


def _joined(records: Sequence[LinkRecord]) -> list[Any]:
    return join_links(records)


def _fields(**changed: Any) -> list[Any]:
    names = (
        "version",
        "name",
        "generation",
        "life",
        "number",
        "profile",
        "domain",
        "crawl",
        "flat",
    )
    fields = dict(zip(names, msgpack.unpackb(GOLDEN, raw=True), strict=True))
    return [*(fields | changed).values()]


_LOT = [1, b"link", True, b"", 1]
HOSTILE: dict[str, Any] = {
    "nothing": None,
    "no fields": [],
    "a number": 7,
    "a map": {},
    "a later version": _fields(version=5),
    "a field too many": [*_fields(), 1],
    "a name with a blank": _fields(name=b"link:app:a crawl"),
    "a name of two parts": _fields(name=b"link:app"),
    "a name of four parts": _fields(name=b"a:b:c:d"),
    "a name of no text": _fields(name=b"\xff:a:b"),
    "a generation below 0": _fields(generation=-1),
    "a truth for a number": _fields(generation=True),
    "a number beyond doubles": _fields(number=2**53),
    "a broken number": _fields(life=1.5),
    "a hash of other letters": _fields(profile=b"?" * 16),
    "a long hash": _fields(profile=b"0" * 17),
    "a cap below none": _fields(crawl=-2),
    "no links": _fields(flat=[]),
    "half a lot": _fields(flat=[1, b"link"]),
    "a lot without groups": _fields(flat=[1, b"link", True, b"", 0]),
    "more groups than there are": _fields(flat=[1, b"link", True, b"", 2, b"a", 1, b"5", b"e"]),
    "a priority beyond all": _fields(flat=[10**9, *_LOT[1:], b"a", 1, b"5", b"e"]),
    "a spider with a slash": _fields(flat=[1, b"li/nk", True, b"", 1, b"a", 1, b"5", b"e"]),
    "a site with a blank": _fields(flat=[1, b"link", True, b"a b", 1, b"a", 1, b"5", b"e"]),
    "counts that is no truth": _fields(flat=[1, b"link", 1, b"", 1, b"a", 1, b"5", b"e"]),
    "counts of an unknown standing": _fields(
        flat=[1, b"link", b"2 x 1 1", b"", 1, b"a", 1, b"5", b"e"]
    ),
    "counts of a bit that is none": _fields(
        flat=[1, b"link", b"2 64 1 1", b"", 1, b"a", 1, b"5", b"e"]
    ),
    "a domain with a blank": _fields(flat=[*_LOT, b"a b", 1, b"5", b"e"]),
    "no domain": _fields(flat=[*_LOT, b"", 1, b"5", b"e"]),
    "a size below 1": _fields(flat=[*_LOT, b"a", 0]),
    "a size beyond all": _fields(flat=[*_LOT, b"a", 10**12, b"5", b"e"]),
    "more links than there are": _fields(flat=[*_LOT, b"a", 2, b"5", b"6", b"e"]),
    "a fingerprint that is none": _fields(flat=[*_LOT, b"a", 1, b"5x", b"e"]),
    "a fingerprint with a zero": _fields(flat=[*_LOT, b"a", 1, b"05", b"e"]),
    "an entry that is none": _fields(flat=[*_LOT, b"a", 1, b"5", 7]),
    "an empty entry": _fields(flat=[*_LOT, b"a", 1, b"5", b""]),
    "something behind": _fields(flat=[*_LOT, b"a", 1, b"5", b"e", b"?"]),
    "too many links": _fields(
        flat=[*_LOT[:4], 2, *2 * [b"a", LINKS_PER_CALL, *2 * LINKS_PER_CALL * [b"5"]]]
    ),
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_record_is_refused(fields: object) -> None:
    """Refuses other bytes with a reason, before the frontier reads them."""
    value = None if fields is None else msgpack.packb(fields, use_bin_type=False)
    with pytest.raises(ValueError, match=r"\w"):
        read_links(0, value)


def test_broken_bytes_are_refused_or_harmless() -> None:
    """Raises no other error, whatever bit is wrong."""
    random = Random(1)
    for _ in range(2_000):
        value = bytearray(GOLDEN)
        for _ in range(random.choice((1, 1, 3))):
            value[random.randrange(len(value))] = random.randrange(256)
        try:
            record = read_links(0, bytes(value[: random.choice((None, len(value) // 2))]))
        except ValueError:
            continue
        assert record.links >= 1
