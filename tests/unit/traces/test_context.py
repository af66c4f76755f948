"""Which trace a page belongs to."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crawlstream.model.crawl import Entry
from crawlstream.wire.stored import decode_entry, encode_entry, encode_seed
from crawlstream_traces.context import (
    SpanPlace,
    intake_id,
    is_in_share,
    parent_in,
    place_of_page,
    shown_url,
    stored_trace,
    trace_in,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"
PAGE = "0123456789abcdef" * 2


def test_a_sampled_header_names_the_parent() -> None:
    """Accepts version 00 and later ones, and any flags with the one for sampled."""
    assert parent_in(HEADER) == SpanPlace(TRACE, SPAN)
    assert parent_in(f"cc-{TRACE}-{SPAN}-03") == SpanPlace(TRACE, SPAN)


@pytest.mark.parametrize(
    "header",
    [
        *("", "nonsense", HEADER.upper(), HEADER + "0", f" {HEADER}", f"{HEADER}\n"),
        *(f"00-{TRACE}-{SPAN}-00", f"ff-{TRACE}-{SPAN}-01"),
        *(f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01"),
    ],
)
def test_any_other_header_is_as_none(header: str) -> None:
    """Ignores a header that is not valid, or not sampled: the share decides."""
    assert parent_in(header) is None
    assert trace_in(stored_trace(header, 5)) is None
    entry = Entry(url="http://a.example/", origin="in-0-1", trace=stored_trace(header, 5))
    assert place_of_page(PAGE, entry, 0) is None
    assert place_of_page(PAGE, entry, 1) == SpanPlace(PAGE, intake_id(PAGE, "in-0-1"))


def test_pages_are_placed_by_how_they_came() -> None:
    """A seed follows its intake; found pages and redirects begin a trace, if not in a client's."""
    seed = Entry(url="http://a.example/", origin="in-0-1")
    moved = Entry(url="http://a.example/2", origin="in-0-1", redirect_urls=(seed.url,))
    found = Entry(url="http://a.example/3", parent_url=seed.url)
    assert place_of_page(PAGE, seed, 1) == SpanPlace(PAGE, intake_id(PAGE, "in-0-1"))
    assert place_of_page(PAGE, moved, 1) == SpanPlace(PAGE, "")
    assert place_of_page(PAGE, found, 1) == SpanPlace(PAGE, "")
    theirs = SpanPlace(TRACE, intake_id(TRACE, "in-0-1"))
    for entry in (seed, moved):
        assert place_of_page(PAGE, replace(entry, trace=stored_trace(HEADER, 5)), 0) == theirs


def test_a_share_of_the_ids_is_sampled() -> None:
    """Samples none at 0, all at 1, and about the share in between, always the same ids."""
    dice = random.Random(5)
    ids = [f"{dice.getrandbits(128):032x}" for _ in range(20_000)]
    assert not any(is_in_share(each, 0) for each in ids)
    assert all(is_in_share(each, 1) for each in [*ids, "f" * 32])
    sampled = {each for each in ids if is_in_share(each, 0.1)}
    assert 0.09 < len(sampled) / len(ids) < 0.11
    assert {each for each in ids if is_in_share(each, 0.05)} < sampled


def test_an_entry_keeps_its_trace() -> None:
    """Stores it with the data of a spider; an entry without one has the same bytes."""
    trace = stored_trace(HEADER, 5)
    for meta in ({}, {"mine": 1}):
        entry = Entry(url="http://a.example/", meta=meta, trace=trace, moved_to="b.example")
        assert decode_entry(encode_entry(entry)) == entry
    assert trace_in(trace) == (SpanPlace(TRACE, SPAN), 5)
    assert trace_in(HEADER) is None
    plain = Entry(url="http://a.example/", origin="in-0-1")
    assert encode_entry(plain) == encode_seed(plain.url, "in-0-1")
    assert b"trace" not in encode_entry(plain)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@a.example:8080/x/y?key=1#z", "https://a.example:8080/x/y"),
        ("http://a.example/@b?c", "http://a.example/@b"),
        ("http://a.example/", "http://a.example/"),
        ("data:text/plain,secret", ""),
    ],
)
def test_urls_are_shown_without_secrets(url: str, shown: str) -> None:
    """Leaves out query, fragment, user and password."""
    assert shown_url(url) == shown
