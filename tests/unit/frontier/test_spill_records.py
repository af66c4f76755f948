"""Records of ``<prefix>.overflow``, as other versions have written them."""

from __future__ import annotations

from crawlstream.model.effects import Links, Spill
from crawlstream_frontier.codec.links import Inheritance
from crawlstream_frontier.codec.spill import pack_spills, read_spill

LINKS = [
    Links(domain="a.x", priority=40, fingerprints=["1", "-2"], entries=[b"x", b"y"]),
    Links(
        domain="b.x",
        priority=30,
        spiderid="other",
        counts=False,
        fingerprints=["3"],
        entries=[b"z"],
    ),
]
INHERITED = Inheritance(b"7", 2, 4, None, 500)
GOLDEN = (
    b"\x99\x01\xa6worker\xa31-1\x00\xa17\x02\xff\xcd\x01\xf4\x92\x96\xa3a.x(\xa4link\xc3\x92\xa11\xa2-2"
    b"\x92\xa34,x\xa34,y\x96\xa3b.x\x1e\xa5other\xc2\x91\xa13\x91\xa34,z"
)
"""Lies in topics of clusters that are updated while Redis is full."""


def test_a_spilled_record_has_these_bytes() -> None:
    """Another version must be able to read what this one writes."""
    packed = pack_spills("worker", "link", "1-1", links=LINKS, inherited=INHERITED)
    assert packed == [Spill(0, 3, GOLDEN)]


def test_a_spilled_record_of_another_version_is_read() -> None:
    """Reads a spilled record of another version as `recall.lua` does, with its size."""
    record = read_spill(9, GOLDEN)
    assert (record.offset, record.size, record.links) == (9, len(GOLDEN), 3)
    assert record.domains == [b"a.x", b"b.x"]
    assert record.head == (b"worker", b"1-1", 0, b"7", 2, -1, 500)
    assert record.flat == [
        *(40, b"link", True, "", 1, b"a.x", 2, b"1", b"-2", b"4,x", b"4,y"),
        *(30, b"other", False, "", 1, b"b.x", 1, b"3", b"4,z"),
    ]
