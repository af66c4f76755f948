"""An address is a URL as a browser would ask for it, or is refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.errors import InvalidUrl
from crawlstream.model.url import canonical, host_of, origin_of, seed_url
from crawlstream.model.web.address import MAX_URL_LENGTH, address, output_charset, resolved

quick = settings(max_examples=100)

BASE = "http://site.example/dir/page?q=1#part"

REFERENCES = {
    # Queries are sent as they are written.
    "?wsdl": "http://site.example/dir/page?wsdl",
    "index.php?/blog/view/12": "http://site.example/dir/index.php?/blog/view/12",
    "?p=a.git;a=commit;h=1f": "http://site.example/dir/page?p=a.git;a=commit;h=1f",
    "?b=2&a=1&a=0&c": "http://site.example/dir/page?b=2&a=1&a=0&c",
    "?q=%GG&r=%7e": "http://site.example/dir/page?q=%GG&r=%7e",
    "?sig=ab/cd+ef==": "http://site.example/dir/page?sig=ab/cd+ef==",
    "?": "http://site.example/dir/page?",
    "?a b\"<>`{}|^'": "http://site.example/dir/page?a%20b%22%3C%3E`{}|^%27",
    # Paths.
    "": "http://site.example/dir/page?q=1",
    "#top": "http://site.example/dir/page?q=1#top",
    ".": "http://site.example/dir/",
    "../x": "http://site.example/x",
    "../../../x": "http://site.example/x",
    "./a/%2E%2e/b": "http://site.example/dir/b",
    r"\a\b": "http://site.example/a/b",
    "a//b": "http://site.example/dir/a//b",
    "web/1/http://h.test/": "http://site.example/dir/web/1/http://h.test/",
    "a|b[c]{d}": "http://site.example/dir/a|b[c]%7Bd%7D",
    "%7Eu/~u/%e9": "http://site.example/dir/%7Eu/~u/%e9",
    "sp ace/ü": "http://site.example/dir/sp%20ace/%C3%BC",
    "a\tb\nc": "http://site.example/dir/abc",
    "  /x ": "http://site.example/x",
    "x;y=1": "http://site.example/dir/x;y=1",
    # Schemes and hosts.
    "//other.example/x": "http://other.example/x",
    "///h.test/x": "http://h.test/x",
    "http:/x": "http://site.example/x",
    "http:x": "http://site.example/dir/x",
    "https:x": "https://x/",
    "HTTPS://Other.EXAMPLE:443": "https://other.example/",
    "http://other.example:80/": "http://other.example/",
    "http://other.example:/": "http://other.example/",
    "http://other.example:0081/": "http://other.example:81/",
    "http://other.example./x": "http://other.example/x",
    "http://faß.example/": "http://xn--fa-hia.example/",
    "http://βόλος.example/": "http://xn--nxasmm1c.example/",
    "http://münchen_1.example/": "http://xn--mnchen_1-65a.example/",
    "http://☃.example/": "http://xn--n3h.example/",
    "http://exam%70le.example/": "http://example.example/",
    "http://under_score.example/": "http://under_score.example/",
    "http://0x7f.1/": "http://127.0.0.1/",
    "http://①②⑦.0.0.1/": "http://127.0.0.1/",
    "http://[0:0::1]:8080/": "http://[::1]:8080/",
    "http://\\other.example": "http://other.example/",
}
"""A reference on the page at BASE, and what a browser asks for."""

NOWHERE = [
    "mailto:a@b.example",
    "javascript:alert(1)",
    "tel:5551",
    "data:text/html,x",
    "ftp://h.example/",
    "file:///etc/passwd",
    "http://user@h.example/",
    "http://user:secret@h.example/",
    "http://good.example@127.0.0.1/",
    "http://h.example:65536/",
    "http://h.example:0/",
    "http://h.example:8o80/",
    "http://256.1.1.1/",
    "http://1.2.3.4.5/",
    "http://h.example.123/",
    "http://[::1%eth0]/",
    "http://[::1/",
    "http://[v1.fe80]/",
    "http://::1/",
    "http://exa mple.example/",
    "http://127.0.0.1%00.example/",
    "http://h..example/",
    "http://.example/",
    "http://../",
    "http://a!b.example/",
    "http://" + "x" * 64 + ".example/",
    "http://" + ".".join(["label"] * 50) + "/",
    "/" + "x" * 20 * MAX_URL_LENGTH,
]


@pytest.mark.parametrize(("reference", "expected"), REFERENCES.items())
def test_a_reference_leads_where_a_browser_goes(reference: str, expected: str) -> None:
    """Resolves a reference by the URL Standard, and keeps what it has resolved."""
    assert resolved(BASE, reference) == expected
    assert address(expected) == expected


@pytest.mark.parametrize("reference", NOWHERE)
def test_a_reference_that_cannot_be_crawled_leads_nowhere(reference: str) -> None:
    """Returns None for other schemes, user names, hosts that no DNS has, and endless text."""
    assert resolved(BASE, reference) is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "the URL is empty"),
        (" \n", "the URL is empty"),
        ("/path", "the URL has no scheme"),
        ("example.com/path", "the URL has no scheme"),
        ("ftp://h.example/", "the scheme 'ftp' is not http or https"),
        ("javascript:alert(1)", "the scheme 'javascript' is not http or https"),
        ("http://", "the URL has no host"),
        ("http://?q", "the URL has no host"),
        ("http://u:p@h.example/", "user names and passwords in a URL are not supported"),
        ("http://h.example:65536/", "65536 is not a valid port"),
        ("http://h.example:0/", "0 is not a valid port"),
        ("http://a!b.example/", "'a!b.example' is not a valid host name"),
        ("http://exa mple/", "'exa mple' is not a valid host name"),
        ("http://1.2.3.4.5/", "'1.2.3.4.5' is not a valid host name"),
        ("http://[v1.a]/", "'[v1.a]' is not a valid IPv6 address"),
        ("http://h.example/#" + "x" * 100_000, "the URL is longer than 2083 characters"),
    ],
)
def test_a_url_that_cannot_be_crawled_says_why(url: str, sentence: str) -> None:
    """Refuses with the one sentence that helps."""
    with pytest.raises(InvalidUrl) as refused:
        address(url)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("charset", "reference", "query"),
    [
        ("latin-1", "?q=ü", "q=%FC"),
        ("cp1251", "?q=да", "q=%E4%E0"),
        ("shift_jis", "?q=日本", "q=%93%FA%96{"),
        ("latin-1", "?q=日 \"'", "q=%26%2326085%3B%20%22%27"),
        ("latin-1", "/ü?q=%fc&r=a", "q=%fc&r=a"),
        ("utf-8", "?q=ü", "q=%C3%BC"),
        ("utf-16-le", "?q=ü", "q=%C3%BC"),
        ("utf_32", "?q=ü", "q=%C3%BC"),
    ],
)
def test_a_query_is_sent_in_the_charset_of_its_page(
    charset: str, reference: str, query: str
) -> None:
    """Encodes a query as forms do; UTF-16 goes as UTF-8, and what a charset lacks as a number."""
    found = resolved(BASE, reference, output_charset(charset))
    assert found
    assert found.partition("?")[2] == query


_RESTS = st.text(
    st.sampled_from("abZ019/.?&=#%;:@!$'()*+,|[]~_-^`{}<>\\\" \t\x01éü水😀\ud800" + "2efFcC3"),
    max_size=30,
)


@quick
@given(_RESTS)
def test_an_address_stays_as_it_is(rest: str) -> None:
    """Makes printable ASCII of any text, once; what has the same address has the same identity."""
    url = f"http://Site.example:80/{rest}"
    once = address(url)
    assert address(once) == once
    assert once.isascii()
    assert " " not in once
    assert once.isprintable()
    assert canonical(once) == canonical(url)


@quick
@given(st.one_of(st.text(max_size=40), st.text(max_size=40).map("http://".__add__)))
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    """Raises nothing but InvalidUrl; host and origin can be read of what passes."""
    for parse in (address, seed_url):
        try:
            url = parse(text)
        except InvalidUrl:
            continue
        assert parse(url) == url
        assert host_of(url)
        assert origin_of(url).startswith(("http://", "https://"))
