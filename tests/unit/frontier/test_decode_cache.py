"""The cache of decoded profiles: no larger than it may be, whatever clients send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawlstream.model.crawl import Profile
from crawlstream.wire import stored
from crawlstream_frontier.codec.decode_cache import DecodeCache
from crawlstream_frontier.codec.entries import profile_from


@given(st.lists(st.integers(0, 1100), max_size=50))
def test_it_answers_alike_and_stays_within_its_bytes(sizes: list[int]) -> None:
    """Returns equal values for any calls, within its bytes."""
    cache = DecodeCache(bytes.hex, most_bytes=1000)
    for size in sizes:
        assert cache(bytes(size)) == bytes(size).hex()
        assert cache.bytes <= 1000


def test_what_is_asked_for_again_is_not_made_again() -> None:
    """Decodes a value once, unless it is larger than the whole cache."""
    made: list[bytes] = []
    cache = DecodeCache(made.append, most_bytes=1000)
    for packed in (b"a", b"b", b"a", b"b", b"c" * 999, b"c" * 999):
        cache(packed)
    assert made == [b"a", b"b", b"c" * 999, b"c" * 999]


def test_the_eldest_is_forgotten_first() -> None:
    """Recently used values stay."""
    made: list[bytes] = []
    cache = DecodeCache(made.append, most_bytes=400)
    for packed in (b"a" * 64, b"b" * 64, b"c" * 64, b"a" * 64, b"d" * 64, b"a" * 64, b"b" * 64):
        cache(packed)
    assert [packed[:1] for packed in made] == [b"a", b"b", b"c", b"d", b"b"]


def test_a_profile_comes_out_as_it_went_in() -> None:
    """Small or large, the first time and again; nothing stored is an empty one."""
    many: list[dict[str, object]] = [{"a": [1]}, {"x": [{}] * 200_000}]
    for attrs in many:
        profile = Profile(attrs=attrs, maxdepth=2)
        packed = stored.encode_profile(profile)
        assert profile_from(packed) == profile_from(packed) == profile
    assert profile_from(b"") == Profile()
