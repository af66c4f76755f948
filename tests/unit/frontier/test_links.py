"""Links on their way into the scripts."""

from __future__ import annotations

from crawlstream.model.effects import Links
from crawlstream_frontier.codec.links import Inheritance


def group(domain: str, *names: str, priority: int = 5, spiderid: str | None = None) -> Links:
    """Links of one domain."""
    return Links(
        domain=domain,
        priority=priority,
        spiderid=spiderid,
        fingerprints=[*names],
        entries=[name.encode() for name in names],
    )


def test_groups_that_share_a_lot_travel_behind_its_head() -> None:
    """Common fields are stored once, and a group without links not at all."""
    inherited = Inheritance(b"1", 1, 8, None, None)
    packed = inherited.pack_links(
        [group("a", "1", "2"), group("b", "3", priority=6), group("c", "4"), group("d")], "link"
    )
    assert packed == [
        *(5, "link", True, "", 2),
        *("a", 2, "1", "2", b"8,1", b"8,2"),
        *("c", 1, "4", b"8,4"),
        *(6, "link", True, "", 1),
        *("b", 1, "3", b"8,3"),
    ]
