"""Cookies of a chain of redirects are set and sent by RFC 6265."""

from __future__ import annotations

import pytest
from scrapy import Spider

from crawling.page.chain_cookies import MOST_COOKIES, after, octets_of, sent_to, text_of
from crawling.page.scrapy_request import to_scrapy
from crawlstream.model.crawl import Entry, Profile
from crawlstream.wire.stored import decode_entry, encode_entry
from support.pages import page_at

SITE = "https://www.example.com"


def cookie_of(set_at: str, lines: list[bytes], sent_at: str) -> bytes | None:
    """The header that a request has after a response, its entry stored between them."""
    entry = Entry(url=sent_at, cookies=after({}, set_at, lines))
    stored = decode_entry(encode_entry(entry))
    page = page_at(sent_at, cookies=stored.cookies)
    return to_scrapy(page, Spider("link"), lambda _: None).headers.get(b"Cookie")


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        (b"SID=31d4d96e407aad42", b"SID=31d4d96e407aad42"),
        (b" sid = 7 ; Path=/", b"sid=7"),
        (b"\tsid\t=\t7\t", b"sid=7"),
        (b"a=b=c; x", b"a=b=c"),
        (b'a="b c"', b'a="b c"'),
        (b"a=", b"a="),
        (b"a", None),
        (b"=a", None),
        (b" = a", None),
        (b"; a=b", None),
        (b"n=\xe9", b"n=\xe9"),
        (b"n=\xc3\xa9", b"n=\xc3\xa9"),
        (b"\xe9\xff=\x80", b"\xe9\xff=\x80"),
        ("n=\U0010ffe9".encode(), "n=\U0010ffe9".encode()),
    ],
)
def test_name_and_value_are_octets_without_blanks_around_them(
    line: bytes, sent: bytes | None
) -> None:
    """Section 5.2: up to the first semicolon and the first equals sign; octets stay as they are."""
    assert cookie_of(f"{SITE}/", [line], f"{SITE}/next") == sent


@pytest.mark.parametrize(
    ("attribute", "is_taken"),
    [
        (b"Domain=example.com", True),
        (b"domain=.EXAMPLE.com", True),
        (b"Domain=www.example.com", True),
        (b"Domain=", True),
        (b"Domain=other.example", False),
        (b"Domain=a.www.example.com", False),
        (b"Domain=xample.com", False),
        (b"Domain=ww.example.com", False),
        (b"Domain=com", False),
        (b"Domain=other.example; Domain=example.com", True),
        (b"Domain=example.com; Domain=other.example", False),
        (b"Secure; HttpOnly; SameSite=Lax", True),
    ],
)
def test_a_cookie_for_a_foreign_domain_is_ignored(
    attribute: bytes,
    is_taken: bool,  # noqa: FBT001
) -> None:
    """Section 5.3; the last attribute of a name counts. A public suffix is foreign to its names."""
    sent = cookie_of(f"{SITE}/", [b"a=b; " + attribute], f"{SITE}/next")
    assert sent == (b"a=b" if is_taken else None)


def test_an_address_and_a_suffix_own_nothing_above_them() -> None:
    """Takes no cookie for an address' or suffix' parent, and no secure one without encryption."""
    for host, domain in (("127.0.0.1", "0.0.1"), ("alice.github.io", "github.io")):
        assert after({}, f"http://{host}/", [f"a=b; Domain={domain}".encode()]) == {}
    assert after({}, "http://127.0.0.1/", [b"a=b; Domain=127.0.0.1"]) == {"a": "b"}
    assert after({}, "http://www.example.com/", [b"a=b; Secure"]) == {}


@pytest.mark.parametrize(
    ("set_at", "path", "sent_at", "is_sent"),
    [
        ("/dir/page", "", "/dir/other", True),
        ("/dir/page", "", "/dir", True),
        ("/dir/page", "", "/", False),
        ("/dir/page", "", "/dirt", False),
        ("/dir/page", "", "/dir/below/x?y", True),
        ("/page", "", "/any/where", True),
        ("", "", "/any/where", True),
        ("/dir/", "", "/dir/x", True),
        ("/dir/page", "; Path=/", "/x", True),
        ("/dir/page", "; Path=", "/dir/x", True),
        ("/dir/page", "; Path=x", "/x", False),
        ("/", "; Path=/elsewhere", "/next", False),
        ("/", "; Path=/elsewhere", "/elsewhere", True),
        ("/", "; path=/elsewhere/", "/elsewhere", False),
        ("/", "; path=/elsewhere/", "/elsewhere/x", True),
        ("/", "; Path=/a; Path=/b", "/b", True),
        ("/", "; Path=/a; Path=/b", "/a", False),
    ],
)
def test_a_cookie_goes_to_its_path_and_below(
    set_at: str,
    path: str,
    sent_at: str,
    is_sent: bool,  # noqa: FBT001
) -> None:
    """Sections 5.1.4 and 5.2.4: by default to the directory of the page that set it."""
    sent = cookie_of(f"{SITE}{set_at}", [f"a=b{path}".encode()], f"{SITE}{sent_at}")
    assert sent == (b"a=b" if is_sent else None)


def test_a_chain_keeps_what_is_for_a_later_page() -> None:
    """Two of one name are two by their paths; the longer path comes first (5.4)."""
    kept = after({"a": "client"}, f"{SITE}/login/start", [b"a=1", b"b=2; Path=/login", b"c=3"])
    kept = after(kept, f"{SITE}/home", [b"c=; Path=/login; Max-Age=0", b"b=; Max-Age=0"])
    assert sent_to(kept, f"{SITE}/home") == [("a", "client")]
    assert sent_to(kept, f"{SITE}/login/end") == [("a", "1"), ("b", "2"), ("a", "client")]


def test_what_is_kept_is_bounded() -> None:
    """Cookies for other pages of the host count, too."""
    lines = [b"c%d=1; Path=/x" % number for number in range(2 * MOST_COOKIES)]
    assert len(after({}, SITE, lines)) == MOST_COOKIES


def test_what_clients_give_is_sent_as_it_is() -> None:
    """Next to the chain's cookies, in UTF-8."""
    profile = Profile(cookie="k=\u00e9;", cookies={"c": "\U0010ffe9"})
    page = page_at(f"{SITE}/x", profile=profile, cookies={"n": text_of(b"\xe9")})
    sent = to_scrapy(page, Spider("link"), lambda _: None).headers[b"Cookie"]
    assert sent == "k=\u00e9; c=\U0010ffe9; n=".encode() + b"\xe9"


@pytest.mark.parametrize("octets", [bytes(range(256)), "\U0010ff80é\U0010ffff".encode() + b"\xf4"])
def test_octets_come_back_from_their_text(octets: bytes) -> None:
    """Restores any octets from their text."""
    assert octets_of(text_of(octets)) == octets
