"""Stored values come back as they were, take little room, and garbage is not taken for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawling.links.encoded import EncodedLinks
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.scope import DirectiveUse, Redirects
from crawlstream.model.web.guard_mode import GuardMode
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.model.web.purposes import Purpose
from crawlstream.model.web.url_parameters import Parameters
from crawlstream.wire.stored import (
    LinkEncoder,
    decode_entry,
    decode_profile,
    encode_entry,
    encode_profile,
    encode_version,
    short_extras,
    split_text,
)

quick = settings(max_examples=50)

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
    body=st.none() | st.binary(),
    cookies=_PAIRS,
    meta=_OBJECTS,
    salt=_MAYBE_TEXT,
    moved_to=_MAYBE_TEXT,
)
_EXPRESSION = st.none() | st.text(min_size=1, max_size=9)
_RULES = st.builds(
    PriorityRule,
    match=_EXPRESSION,
    types=st.none() | st.just(("pdf", "tar.gz")),
    depth=st.none() | st.just((1, 3)),
    hosts=st.none() | st.just(("a.example",)),
    text=_EXPRESSION,
    add=st.none() | st.integers(-100, 100).map(lambda tens: 10 * tens),
    drop=st.booleans(),
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
    priorities=st.none() | st.lists(_RULES, min_size=1, max_size=3).map(tuple),
    useragent=_MAYBE_TEXT,
    cookie=_MAYBE_TEXT,
    cookies=st.none() | _PAIRS,
    headers=st.none() | _PAIRS,
    site=_MAYBE_TEXT,
    obey_robots=st.none() | st.booleans(),
    directives=st.sampled_from([None, *DirectiveUse]),
    drop=st.sampled_from([None, ("noindex",), ("noindex", "noarchive", "reserved")]),
    purpose=st.sampled_from([None, *Purpose]),
    guard=st.sampled_from([None, *GuardMode]),
    sitemaps=st.sampled_from([None, "also", "only"]),
    parameters=st.sampled_from([None, Parameters(drop=("a*",)), Parameters(keep=("a", "b"))]),
    proxy=_MAYBE_TEXT,
    tls=_MAYBE_TEXT,
    redirects=st.sampled_from(Redirects),
    uuid=_MAYBE_TEXT,
)


@quick
@given(_ENTRIES)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    """Decodes an entry as it was encoded, whatever its fields hold."""
    assert decode_entry(encode_entry(entry)) == entry


@quick
@given(
    st.lists(_URLS | st.text("ab/", max_size=400), max_size=8),
    st.integers(0, 300),
    _URLS | st.text("ab/", max_size=800),
    st.none() | st.just("www.moved.example"),
)
def test_links_are_stored_like_any_entry(
    urls: list[str], depth: int, parent: str, moved_to: str | None
) -> None:
    """The short ways to the stored links of a page end at the same bytes."""
    encoder = LinkEncoder(depth, parent.encode(), moved_to)
    for url in urls:
        entry = Entry(url=url, depth=depth, parent_url=parent, moved_to=moved_to)
        assert encoder.encode(url) == encode_entry(entry)
        version = encode_version(url, depth, parent.encode(), short_extras("v 1", moved_to))
        assert version == encode_entry(replace(entry, salt="v 1"))


def test_versions_without_the_field_read_an_entry_whose_seed_has_moved() -> None:
    """Stores the host in ``meta``, which they know; and reads the form that they refuse."""
    url, parent = "http://new.example/a", "http://new.example/"
    entry = Entry(url=url, depth=1, parent_url=parent, meta={"own": 1}, moved_to="new.example")
    body = encode_entry(entry)
    assert b'{"m":{"own":1,"@moved_to":"new.example"}}' in split_text(body)[0]
    assert decode_entry(body) == entry
    former = encode_version(url, 1, parent.encode(), b'{"t":"new.example"}')
    assert decode_entry(former) == replace(entry, meta={})


def test_links_are_encoded_when_they_are_looked_at() -> None:
    """Encodes links when they are read, as a list of entries, some of them encoded already."""

    class Counted(LinkEncoder):
        links: list[str] = []  # noqa: RUF012  of this test alone

        def encode(self, link: str) -> bytes:
            self.links.append(link)
            return super().encode(link)

    urls = [f"http://a.example/{number}" for number in range(4)]
    expected = [encode_entry(Entry(url=url, depth=1, parent_url=urls[0])) for url in urls]
    encoder = Counted(1, urls[0].encode())
    links = EncodedLinks()
    add = links.appender(encoder)
    add(urls[0])
    add(urls[1])
    links.append(expected[2])
    assert (len(links), Counted.links) == (3, [])
    links.appender(Counted(1, urls[0].encode()))(urls[3])
    assert Counted.links == [urls[3]]
    assert [*links] == expected
    assert [*links[1:3]] == expected[1:3]
    assert links[-1] == expected[3]
    assert (Counted.links.count(urls[1]), Counted.links.count(urls[3])) == (2, 1)


@quick
@given(_PROFILES)
def test_a_profile_comes_back_as_it_was(profile: Profile) -> None:
    """Decodes a profile as it was encoded, whatever its fields hold."""
    assert decode_profile(encode_profile(profile)) == profile


def _reversed(value: object) -> object:
    """Return the mappings, written in the opposite order."""
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
    """Return "" if it decodes, ``stored`` for the one allowed error, else the error."""
    try:
        decode(raw)
    except ValueError as error:
        return "stored" if "not a stored" in str(error) else str(error)
    return ""


@quick
@given(st.binary(max_size=80))
def test_garbage_is_a_value_error(body: bytes) -> None:
    """Random bytes raise one clear error, or decode to an entry."""
    for raw in (body, b"\x01" + body):
        for decode in (decode_entry, decode_profile):
            assert _problem(decode, raw) in ("", "stored")


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x02abc", b"{}", b"\x01", b"\x01\xff\x00abc"])
def test_another_version_is_refused(body: bytes) -> None:
    """Values that another version has stored are not guessed at."""
    with pytest.raises(ValueError, match="not a stored entry"):
        decode_entry(body)


@quick
@given(_URLS)
def test_a_cut_entry_is_never_taken_for_a_page_elsewhere(url: str) -> None:
    """An entry that lost its end raises an error or yields a prefix of its URL, no other URL."""
    cut = encode_entry(Entry(url=url))[:-1]
    if not _problem(decode_entry, cut):
        assert url.startswith(decode_entry(cut).url[:-1])
