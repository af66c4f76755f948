"""Content codings are undone as far as the data goes, in bounded parts and bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
from backports import zstd

from crawling.decoding import MOST_PARTS, decoded
from crawling.failures import BadEncoding, TooLarge

PAGE = "".join(f"<a href=/{n * n}>link {n}</a>\n" for n in range(20_000)).encode()
ROOM = 1 << 24
PACK: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": lambda body: bytes(brotli.compress(body)),
    b"zstd": zstd.compress,
}
every_coding = pytest.mark.parametrize("coding", PACK)


@every_coding
def test_a_body_comes_back_as_it_was(coding: bytes) -> None:
    """Restores a body, also an empty one, and one of exactly the maximum size."""
    for page in (PAGE, b"x", b""):
        assert decoded(PACK[coding](page), [coding], max(len(page), 1)) == (page, [], True)
    assert decoded(b"", [coding], ROOM) == (b"", [], True)


@every_coding
def test_a_body_that_is_cut_short_is_delivered_as_far_as_it_goes(coding: bytes) -> None:
    """Delivers the beginning of a cut body, marked as such; without any, it is an error."""
    packed = PACK[coding](PAGE)
    part, _, is_whole = decoded(packed[: len(packed) // 2], [coding], ROOM)
    assert 0 < len(part) < len(PAGE)
    assert not is_whole
    assert not decoded(packed[:-1], [coding], ROOM).is_whole
    assert not decoded(PACK[b"gzip"](packed[:-1]), [coding, b"gzip"], ROOM).is_whole
    assert PAGE.startswith(part)
    with pytest.raises(BadEncoding):
        decoded(packed[:3], [coding], ROOM)


@every_coding
def test_what_is_not_in_its_coding_is_an_error(coding: bytes) -> None:
    """Does not pass off other data as a page."""
    with pytest.raises(BadEncoding):
        decoded(b"<html>this is no compressed data at all</html>", [coding], ROOM)


@every_coding
def test_a_body_larger_than_allowed_is_an_error(coding: bytes) -> None:
    """Stops at the limit."""
    with pytest.raises(TooLarge):
        decoded(PACK[coding](PAGE), [coding], len(PAGE) - 1)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_a_body_that_breaks_off_amid_the_data_is_delivered_up_to_there(coding: bytes) -> None:
    """Keeps the bytes before a wrong checksum, or before nonsense, and marks it."""
    packed = PACK[coding](PAGE)
    part, _, is_whole = decoded(packed[:-1] + bytes([packed[-1] ^ 0xFF]), [coding], ROOM)
    assert PAGE.startswith(part)
    assert len(PAGE) - len(part) <= 1 << 13
    assert not is_whole
    half = len(packed) // 2
    part, _, is_whole = decoded(packed[:half] + b"\xff" * half, [coding], ROOM)
    assert part[:1000] == PAGE[:1000]
    assert not is_whole


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_several_parts_are_one_body_up_to_a_limit(coding: bytes) -> None:
    """Joins members and frames, empty ones too, and refuses thousands of them."""
    pack = PACK[coding]
    several = pack(b"a") + pack(b"") + pack(b"b")
    assert decoded(several, [coding], ROOM) == (b"ab", [], True)
    assert decoded(several[:-1], [coding], ROOM).is_whole is False
    with pytest.raises(TooLarge):
        decoded(pack(PAGE) + pack(PAGE), [coding], 2 * len(PAGE) - 1)
    assert len(decoded(pack(b"a") * MOST_PARTS, [coding], ROOM)[0]) == MOST_PARTS
    with pytest.raises(BadEncoding, match="more than 64 parts"):
        decoded(pack(b"") * (MOST_PARTS + 1), [coding], ROOM)


def test_what_is_behind_the_data_is_passed_over() -> None:
    """Takes zeros and other text behind gzip data for padding."""
    for tail in (b"\0" * 100, b"junk"):
        assert decoded(gzip.compress(PAGE) + tail, [b"gzip"], ROOM) == (PAGE, [], True)


def test_deflate_may_lack_its_frame() -> None:
    """Reads what some servers send for it."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(PAGE) + packer.flush()
    assert decoded(packed, [b"deflate"], ROOM) == (PAGE, [], True)


def test_codings_are_undone_from_the_last_to_the_first() -> None:
    """Leaves an unknown coding, and all that was applied before it."""
    body = gzip.compress(zstd.compress(PAGE))
    assert decoded(body, [b"zstd", b"gzip"], ROOM) == (PAGE, [], True)
    assert decoded(body, [b"br", b"compress", b"gzip"], ROOM) == (
        zstd.compress(PAGE), [b"br", b"compress"], True,
    )  # fmt: skip


def test_a_frame_that_refers_too_far_back_is_an_error() -> None:
    """A window costs as much memory as its frame says, whatever is in it."""
    options = {int(zstd.CompressionParameter.window_log): 27}
    packer = zstd.ZstdCompressor(options=options)
    packed = packer.compress(PAGE) + packer.flush()
    with pytest.raises(BadEncoding):
        decoded(packed, [b"zstd"], ROOM)
