"""What Redis stores comes back as it was, takes little room, and garbage is not mistaken for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.model.crawl import Entry, Profile
from crawlstream.wire.stored import (
    decode_entry,
    decode_profile,
    encode_entry,
    encode_link,
    encode_profile,
)

quick = settings(deadline=None, max_examples=50)

_TEXT = st.text(max_size=20)
_URLS = st.one_of(
    st.text(max_size=60),
    st.text("abzAFGZ09/.?=&%-^$é", max_size=60).map("http://example.com/".__add__),
    st.text("abcdefghijklm0123456789/", max_size=60).map("https://example.com/".__add__),
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_TEXT, _JSON, max_size=3)
_PAIRS = st.dictionaries(_TEXT, _TEXT, max_size=3)
_MAYBE_TEXT = st.none() | _TEXT
_TEXTS = st.none() | st.lists(_TEXT, max_size=3).map(tuple)

_ENTRIES = st.builds(
    Entry,
    url=_URLS,
    depth=st.integers(0, 300),
    origin=_MAYBE_TEXT,
    parent_url=st.none() | _URLS,
    redirect_urls=st.lists(_URLS, max_size=3).map(tuple),
    callback=_MAYBE_TEXT,
    method=st.sampled_from(["GET", "POST"]),
    headers=_PAIRS,
    body=_MAYBE_TEXT,
    cookies=_PAIRS,
    meta=_OBJECTS,
    salt=_MAYBE_TEXT,
)
_PROFILES = st.builds(
    Profile,
    seed_url=st.none() | _URLS,
    attrs=st.none() | _OBJECTS,
    maxdepth=st.integers(0, 300),
    domain_max_pages=st.none() | st.integers(0, 2000),
    max_pages=st.none() | st.integers(0, 10**9),
    allowed_domains=_TEXTS,
    allow_regex=_TEXTS,
    deny_regex=_TEXTS,
    deny_extensions=_TEXTS,
    useragent=_MAYBE_TEXT,
    cookie=_MAYBE_TEXT,
    cookies=st.none() | _PAIRS,
    headers=st.none() | _PAIRS,
    site=_MAYBE_TEXT,
    obey_robots=st.none() | st.booleans(),
    uuid=_MAYBE_TEXT,
)


@quick
@given(_ENTRIES)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    """Whatever the fields hold, decoding gives the entry that was encoded."""
    assert decode_entry(encode_entry(entry)) == entry


@quick
@given(_URLS, st.integers(0, 300), _URLS)
def test_a_link_is_stored_like_any_entry(url: str, depth: int, parent: str) -> None:
    """The short way to a stored link ends at the same bytes."""
    entry = Entry(url=url, depth=depth, parent_url=parent)
    assert encode_link(url, depth, parent.encode()) == encode_entry(entry)


@quick
@given(_PROFILES)
def test_a_profile_comes_back_as_it_was(profile: Profile) -> None:
    """Whatever the fields hold, decoding gives the profile that was encoded."""
    assert decode_profile(encode_profile(profile)) == profile


def _reversed(value: object) -> object:
    """The same mappings, written in the opposite order."""
    if isinstance(value, Mapping):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@quick
@given(_OBJECTS)
def test_equal_profiles_are_equal_bytes(attrs: Mapping[str, object]) -> None:
    """The order in which a client wrote its attrs does not make another profile."""
    twin = _reversed(attrs)
    assert isinstance(twin, dict)
    assert encode_profile(Profile(attrs=twin)) == encode_profile(Profile(attrs=attrs))


def test_numbers_of_any_size_survive() -> None:
    """An integer beyond 64 bits comes back exactly."""
    attrs = {"n": 10**40 + 1, "m": -(2**64) - 1, "deep": {"k": [2**63, 2**64]}}
    assert decode_profile(encode_profile(Profile(attrs=attrs))).attrs == attrs


@pytest.mark.parametrize(
    ("url", "parent", "most"),
    [
        (
            "http://www.example-shop.com/catalogue/furniture/tables/oak-table-00412.html?p",
            "http://www.example-shop.com/catalogue/furniture/tables/pine-table-0007.html?p",
            70,
        ),
        (
            "http://h00017.example.com/pages/0001234/with-some-padding-to-make-it-longer/x",
            "http://h00017.example.com/pages/0000017/with-some-padding-to-make-it-longer/x",
            62,
        ),
        (
            "http://www.example-shop.com/catalogue/furniture/tables/oak-table-00412.html?p",
            "http://www.example-shop.com/catalogue/index-of-things-sold-in-this-shop-today",
            88,
        ),
        (
            "http://www.example-shop.com/catalogue/furniture/tables/oak-table-00412.html?p",
            None,
            56,
        ),
    ],
)
def test_a_page_takes_little_room(url: str, parent: str | None, most: int) -> None:
    """A URL of 77 characters below a page like it stays below its own length."""
    assert len(url) == 77
    entry = Entry(url=url, depth=3, parent_url=parent)
    assert len(encode_entry(entry)) <= most
    assert decode_entry(encode_entry(entry)) == entry


def _problem(decode: Callable[[bytes], object], raw: bytes) -> str:
    """Empty if it decodes, ``stored`` for the one error that may come, else what came."""
    try:
        decode(raw)
    except ValueError as error:
        return "stored" if "not a stored" in str(error) else str(error)
    return ""


@quick
@given(st.binary(max_size=80))
def test_garbage_is_a_value_error(body: bytes) -> None:
    """Bytes that nobody encoded raise one clear error, or decode to an entry, never more."""
    for raw in (body, b"\x01" + body):
        for decode in (decode_entry, decode_profile):
            assert _problem(decode, raw) in ("", "stored")


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x02abc", b"{}", b"\x01", b"\x01\xff\x00abc"])
def test_another_version_is_refused(body: bytes) -> None:
    """What another version of the program stored is not guessed at."""
    with pytest.raises(ValueError, match="not a stored entry"):
        decode_entry(body)


@quick
@given(_URLS)
def test_a_cut_entry_is_never_taken_for_a_page_elsewhere(url: str) -> None:
    """An entry that lost its end raises an error or yields a prefix of its URL, no other URL."""
    cut = encode_entry(Entry(url=url))[:-1]
    if not _problem(decode_entry, cut):
        assert url.startswith(decode_entry(cut).url[:-1])
