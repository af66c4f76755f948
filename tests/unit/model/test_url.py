"""Pages have one identity however their URLs are spelled, and it never changes."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from w3lib.url import canonicalize_url

from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.url import (
    canonical,
    domain_key,
    entry_id,
    fingerprint,
    host_of,
    look_up_link,
    origin_of,
    seed_url,
)
from crawlstream.model.web.address import address, without_fragment

quick = settings(max_examples=50)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://EXAMPLE.com:80", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:/x", "http://example.com/x"),
        ("http://example.com./x", "http://example.com/x"),
        ("  http://example.com/x\n", "http://example.com/x"),
        ("http://example.com/x#part", "http://example.com/x"),
        ("http://example.com?b=2&a=1", "http://example.com/?a=1&b=2"),
        ("http://example.com/q?b=2&a=1&a=0", "http://example.com/q?a=0&a=1&b=2"),
        ("http://example.com/q?a", "http://example.com/q?a="),
        ("http://example.com/a/../b/./c", "http://example.com/b/c"),
        ("http://example.com/%7euser/%c3%a9", "http://example.com/~user/%C3%A9"),
        ("http://example.com/sp ace/ü", "http://example.com/sp%20ace/%C3%BC"),
        ("http://example.com/a|b[c]", "http://example.com/a%7Cb%5Bc%5D"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://faß.de/", "http://xn--fa-hia.de/"),
        ("http://under_score.example/", "http://under_score.example/"),
        ("http://127.0.0.5:8080/x", "http://127.0.0.5:8080/x"),
        ("http://127.0.0.5./x", "http://127.0.0.5/x"),
        ("http://[0:0::1]:8080/x", "http://[::1]:8080/x"),
        ("http://localhost/", "http://localhost/"),
        ("http://example.com/user@host", "http://example.com/user@host"),
    ],
)
def test_a_url_has_one_identity(url: str, expected: str) -> None:
    """Case, default port, fragment, dots, order and encoding make no second page."""
    assert canonical(url) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.com", "http://example.com/"),
        ("example.com/a?b=2&a=1#part", "http://example.com/a?b=2&a=1#part"),
        ("127.0.0.5:8080/path", "http://127.0.0.5:8080/path"),
        ("localhost:8080", "http://localhost:8080/"),
        ("[::1]:8080/x", "http://[::1]:8080/x"),
        ("//example.com/x", "http://example.com/x"),
        (" HTTPS://Example.com/X?b=1&a=2#F ", "https://example.com/X?b=1&a=2#F"),
        ("http://example.com?q=1", "http://example.com/?q=1"),
        ("2130706433", "http://127.0.0.1/"),
        ("http:example.com", "http://example.com/"),
        ("http://example.com/ü ", "http://example.com/%C3%BC"),
    ],
)
def test_a_seed_keeps_its_query_order_and_fragment(text: str, expected: str) -> None:
    """A seed is made safe, not reordered; without a scheme it is http."""
    assert seed_url(text) == expected


@pytest.mark.parametrize("text", ["", "   ", "mailto:a@example.com", "file:///etc/passwd", "/x"])
def test_a_seed_that_names_no_site_is_refused(text: str) -> None:
    """A text that is not the address of a web page is not completed."""
    with pytest.raises(InvalidUrl):
        seed_url(text)


_RESTS = st.text(
    st.sampled_from("abZ019/.?&=#%;:@!$'()*+,|[]~_-\\\" \t\x01éü水😀\ud800" + "2efFcC3"),
    max_size=30,
)


@quick
@given(_RESTS)
@example("/.?a=1&a=0")
@example("/x?b=.&a=")
@example("/a/..//b/%2e%2e/c;d?e;f")
def test_an_identity_is_a_fixed_point_that_scrapy_agrees_with(rest: str) -> None:
    """The identity of an identity is the same, and is what Scrapy makes its fingerprints of."""
    url = f"http://example.com/{rest}"
    once = canonical(url)
    assert canonical(once) == once
    if "\ud800" not in url:
        assert canonicalize_url(once) == canonicalize_url(url)


@quick
@given(st.sampled_from(["http://Example.com:80", "https://127.0.0.1:8443"]), _RESTS)
@example("http://example.co.uk", "/a/b.html?q=1")
@example("http://example.co.uk.", "/a/../b")
@example("http://0x7f.1", "/")
def test_looking_a_link_up_at_once_tells_the_same(place: str, rest: str) -> None:
    """The short way to address, domain and fingerprint ends where the long one does."""
    url = without_fragment(address(f"{place}/{rest}"))
    assert look_up_link(f"{place}/{rest}") == (url, domain_key(host_of(url)), fingerprint(url))


@quick
@given(st.one_of(st.text(max_size=40), st.text(max_size=40).map("http://".__add__)))
def test_any_text_is_a_url_or_is_refused(text: str) -> None:
    """No text raises anything but InvalidUrl; what passes is ASCII and stays as it is."""
    for parse in (canonical, seed_url):
        try:
            url = parse(text)
        except InvalidUrl:
            continue
        assert parse(url) == url
        assert url.isascii()
        assert canonical(url) == canonical(canonical(url))
        assert host_of(url)
        assert origin_of(url).startswith(("http://", "https://"))


@quick
@given(_RESTS)
def test_a_seed_and_a_link_to_it_are_the_same_page(rest: str) -> None:
    """The fingerprint of a seed is that of any link that leads to it."""
    url = f"http://Example.com:80/{rest}"
    assert fingerprint(seed_url(url)) == fingerprint(url) == fingerprint(canonical(url))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("www.example.com", "example.com"),
        ("WWW.Example.COM.", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("user.github.io", "github.io"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("Kafka-1", "kafka-1"),
        ("service.internal.invalid-suffix", "service.internal.invalid-suffix"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("::1", "::1"),
        ("[0:0::1]", "::1"),
        ("www.bücher.de", "xn--bcher-kva.de"),
        ("www.xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("Not A Host!", "not a host!"),
        ("", ""),
    ],
)
def test_a_domain_is_what_a_site_is_counted_under(host: str, expected: str) -> None:
    """Spellings of a host share one domain key; addresses and single labels are their own."""
    assert domain_key(host) == expected
    assert domain_key(expected) == expected


def test_host_and_origin_are_read_from_a_checked_url() -> None:
    """The origin names its port, the host has no brackets."""
    assert host_of("http://example.com:8080/x") == "example.com"
    assert host_of("http://[::1]/x") == "::1"
    assert origin_of("http://example.com") == "http://example.com:80"
    assert origin_of("https://example.com/x:y@z") == "https://example.com:443"
    assert origin_of("http://[::1]:8080/x") == "http://[::1]:8080"
    with pytest.raises(InvalidUrl):
        host_of("nonsense")


def test_a_fingerprint_tells_requests_apart() -> None:
    """Method, body and salt are part of the identity; the number fits 64 signed bits."""
    url = "http://example.com/x"
    numbers = {
        fingerprint(url),
        fingerprint(url, "POST"),
        fingerprint(url, "POST", b"a"),
        fingerprint(url, "POST", b"a", "s"),
        fingerprint(url, "POST", b"", "a"),
        fingerprint(url + "/"),
    }
    assert len(numbers) == 6
    assert all(-(2**63) <= int(number) < 2**63 for number in numbers)
    assert fingerprint(url) == "-1575019709735093851", "stored fingerprints must stay valid"


def test_an_entry_id_names_one_admission_for_ever() -> None:
    """Crawl, run, page and seed record each make another id; no two fields can run together."""
    crawl = CrawlKey("link", "app", "job")
    ids = [
        entry_id(crawl, 1, "5", None),
        entry_id(crawl, 2, "5", None),
        entry_id(crawl, 1, "6", None),
        entry_id(crawl, 1, "5", "demo.incoming-0-7"),
        entry_id(CrawlKey("linka", "pp", "job"), 1, "5", None),
        entry_id(CrawlKey("link", "app", "job1"), 1, "5", None),
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == entry_id(crawl, 1, "5", None)
    assert all(len(i) == 32 and int(i, 16) >= 0 for i in ids)
