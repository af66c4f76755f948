"""Chunks: entries of a band as the shelf has them."""

from __future__ import annotations

import pytest
import zstandard

from crawlstream.model.crawl import Entry
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.codec.chunks import pack_chunk, unpack_chunk
from crawlstream_frontier.codec.values import pack

ENTRIES = [
    *(
        b"7," + encode_entry(Entry(url=f"https://a.example/wiki/Article_{n}.html", depth=n % 300))
        for n in range(200)
    ),
    b"12,"
    + encode_entry(
        Entry(url="http://a.example/b", depth=2, parent_url="http://a.example/some/where?q=1")
    ),
    b"1;!!$" + encode_entry(Entry(url="http://a.example/retried", depth=1)),
    b"1,"
    + encode_entry(
        Entry(
            url="http://a.example/post", method="POST", body=("ü" * 300).encode(), origin="in-0-1"
        )
    ),
    *(b"", b"1,", b"1,\x01", b"1,\xff not ours", b"no header", b"1,\x01\x19\x00", b"\x00" * 9),
]


@pytest.mark.parametrize("entry", ENTRIES[199:], ids=range(len(ENTRIES[199:])))
def test_an_entry_comes_back_as_it_was(entry: bytes) -> None:
    """Byte for byte, also if the entry has another version."""
    assert unpack_chunk(b"1.2", pack_chunk(b"1.2", [entry])) == [entry]


def test_entries_keep_their_order_and_become_small() -> None:
    """URLs of one site have much in common: less than a third is left of them."""
    packed = pack_chunk(b"1.2", ENTRIES)
    assert unpack_chunk(b"1.2", packed) == ENTRIES
    pages = ENTRIES[:200]
    assert len(pack_chunk(b"1.2", pages)) < len(b"".join(pages)) / 3


PACKED = pack_chunk(b"1.2", ENTRIES)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(pack_chunk(b"1.3", ENTRIES), id="another chunk"),
        pytest.param(PACKED[:-9], id="cut"),
        pytest.param(PACKED[:50] + bytes([PACKED[50] ^ 1]) + PACKED[51:], id="one bit"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"nonsense", id="nonsense"),
        pytest.param(zstandard.compress(b"\xc1"), id="not packed"),
        pytest.param(zstandard.compress(pack([2, b"1.2", [], [], []])), id="another version"),
        pytest.param(zstandard.compress(pack([1, b"1.2", [b""], [], []])), id="columns differ"),
        pytest.param(zstandard.compress(bytes(65 << 20)), id="too large"),
    ],
)
def test_nothing_else_is_a_chunk(value: bytes) -> None:
    """A changed or wrong chunk is refused, whatever it is."""
    with pytest.raises(ValueError, match="not "):
        unpack_chunk(b"1.2", value)
