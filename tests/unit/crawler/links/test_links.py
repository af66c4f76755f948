"""Links: what Scrapy's extractor finds, and which of it a crawl follows.

``LINK_PAGES=10000`` sets the number of generated pages, ``LINK_SHAPES`` of real shape;
``LINK_FOLDERS=/usr/share:/srv`` names folders whose HTML files are compared as well.
"""

from __future__ import annotations

import os
import re
import tracemalloc
from pathlib import Path
from sysconfig import get_path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlparse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse
from scrapy.linkextractors import LinkExtractor
from w3lib.url import canonicalize_url

from crawling.links.extract import MOST_LINKS, MOST_URL_CHARACTERS, links_of
from crawlstream.model.crawl import Profile
from crawlstream.model.web.address import address, output_charset, resolved
from crawlstream_extract.link_texts import ALL_TEXTS, LONGEST_TEXT
from crawlstream_extract.markup import LONGEST_MARKUP, MOST_DEEP_TAGS
from crawlstream_frontier.link_rules.link_filters import HostSet
from support.crawler.pages import HOPELESS_BASE, shaped_page

GENERATED = int(os.environ.get("LINK_PAGES", "300"))
SHAPED = int(os.environ.get("LINK_SHAPES", "240"))
FOLDERS = os.environ.get("LINK_FOLDERS", get_path("purelib")).split(os.pathsep)
"""By default the pages that the installed packages bring."""

URL = "http://127.0.20.11:28080/links/page"

GOLDEN_PAGE = """<html><head><base href="http://127.0.20.11:28080/links/"></head><body>
<a href="rel">relative</a> <a href="./x/../dot">dots</a> <a href="/links/abs">absolute path</a>
<a href="//127.0.20.11:28080/links/proto">protocol relative</a>
<a href="frag#one">one</a> <a href="frag#two">two</a>
<a href="q?b=2&amp;a=1">q1</a> <a href="q?a=1&amp;b=2">q2</a>
<a href="  space ">trimmed</a> <a href="sp ace">inner space</a> <a href="ünï">unicode</a>
<a href="nof" rel="nofollow">nofollow</a> <map><area href="area"></map>
<a href="nested"> <b>bold</b> and
 <i>ital</i> </a>
<a href="mailto:x@y">m</a> <a href="javascript:void(0)">j</a> <a href="tel:1">t</a>
<a href="data:text/plain,x">d</a> <a href="ftp://127.0.0.1:1/x">f</a>
<a href="HTTP://127.0.20.11:28080/links/upper">upper scheme</a> <a>no href</a>
</body></html>"""


def html(body: str, url: str = URL) -> HtmlResponse:
    """A page in UTF-8."""
    return HtmlResponse(
        url, body=body.encode(), headers={"Content-Type": "text/html; charset=utf-8"}
    )


def test_links_are_listed_as_clients_have_always_had_them() -> None:
    """Lists links as browsers would request them, in page order, without other schemes."""
    base = "http://127.0.20.11:28080/links/"
    links, refused = links_of(html(GOLDEN_PAGE), Profile())
    assert links == [
        (base + "rel", "relative"),
        (base + "dot", "dots"),
        (base + "abs", "absolute path"),
        (base + "proto", "protocol relative"),
        (base + "frag", "one"),
        (base + "q?b=2&a=1", "q1"),
        (base + "q?a=1&b=2", "q2"),
        (base + "space", "trimmed"),
        (base + "sp%20ace", "inner space"),
        (base + "%C3%BCn%C3%AF", "unicode"),
        (base + "nof", "nofollow"),
        (base + "area", ""),
        (base + "nested", " bold and\n ital "),
        (base + "upper", "upper scheme"),
    ]
    assert refused == {"scheme": 1}


_HOSTS = st.sampled_from(["a.example", "b.a.example", "c.example:8080", "XA.example"])
_PLAIN = st.from_regex(r"(/[a-c_~][a-c.~-]{0,3}){1,3}/?", fullmatch=True)
_PATHS = _PLAIN | st.text(st.sampled_from("ab/.?&=#%;é "), max_size=12)
_ENDS = st.sampled_from(["", ".html", ".PDF", ".jpg", ".tar.gz", ".jpg;x=1"])
_HREFS = st.one_of(
    st.builds("http://{}/{}{}".format, _HOSTS, _PATHS, _ENDS),
    st.builds("{}{}".format, _PATHS, _ENDS),
    st.builds("{}{}{}".format, st.sampled_from(["http://", "HTTP://", "https://"]), _HOSTS, _PLAIN),
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["", "/", "../", "../../", "../../../", "./", "//c.example:8080/", "//"]),
        st.sampled_from(["", "x", "x/", "x/y.html", "x//y", "../x", "x:y", "x.jpg", ".x", "~x"]),
        st.sampled_from(["", "?", "?a=b", "?a", "?a=b&c=d", "?a=b?c", "?a=/"]),
        st.sampled_from(["", "#", "#top", "#a b", "#?a=b", "#é", "#a/../b"]),
    ),
    st.sampled_from(
        ["", "#", "mailto:x", "http://[", "http://a.example:port/", "//c.example:8080/x"]
    ),
)
_TEXTS = st.lists(
    st.sampled_from(
        [
            "text",
            " a&amp;b ",
            "<b>bold</b>",
            "<!-- c -->",
            "<br>",
            "&#0;x",
            "<i><b>deep</b>er</i>",
            "<?p i?>",
            "<area href=/in>",
            "<b><a href=/below>",
        ]
    ),
    max_size=3,
).map("".join)
_BASES = st.sampled_from(
    [
        "",
        '<base href="https://XA.example?q">',
        '<base href="http://c.example:8080/base/">',
        '<base href="/b/">',
        "<BASE href='/b/'>",
        '<ba<!-- -->se href="/b/">',
        '<!-- <base href="/b/"> -->',
    ]
)


_URLS = st.sampled_from(
    [
        "http://a.example/p",
        "http://a.example",
        "http://a.example/p/?q=é#f",
        "https://a.example/p/q/r.html?a=b",
        "http://a.example/p/./q/../r",
    ]
)
_CHARSETS = st.sampled_from(["utf-8"] * 5 + ["utf-16", "latin-1", "shift_jis"])
_PAGES = st.builds(
    lambda base, hrefs: f"<html><head>{base}</head><body>{''.join(hrefs)}</body></html>",
    _BASES,
    st.lists(st.builds('<a href="{}">{}</a>'.format, _HREFS, _TEXTS), max_size=12),
)
_FILTERS = st.fixed_dictionaries(
    {
        "allow_regex": st.sampled_from([None, ("a",), (r"\?", "/b"), ("#",)]),
        "deny_regex": st.sampled_from([None, ("b=",), (r"\.html$",)]),
        "deny_extensions": st.sampled_from([None, (), ("html", "jpg")]),
        "allowed_domains": st.sampled_from(
            [None, ("a.example",), ("c.example:8080", "b.a.example")]
        ),
    }
)


def scrapys(response: HtmlResponse, filters: dict[str, Any]) -> list[tuple[str, str]]:
    """Return identity and text of the links that Scrapy's own extractor finds.

    That is but for the ends of texts that are too long, and for where references lead: that is
    Chromium's to say (``test_as_browsers.py``).
    """

    def lead(base: str, href: str) -> str:
        url = resolved(base, href, output_charset(response.encoding))
        if url is None:
            raise ValueError(href)
        return url

    def base_of(response: HtmlResponse) -> str:
        href = response.xpath("//base/@href").get()
        return (resolved(response.url, href) if href is not None else None) or response.url

    extractor = LinkExtractor(
        allow=filters.get("allow_regex") or (),
        deny=filters.get("deny_regex") or (),
        allow_domains=filters.get("allowed_domains") or (),
        deny_extensions=filters.get("deny_extensions"),
        canonicalize=True,
    )
    where = "scrapy.linkextractors.lxmlhtml"
    with (
        patch("scrapy.selector.unified.get_base_url", lambda response: response.url),
        patch(f"{where}.get_base_url", base_of),
        patch(f"{where}.urljoin", lead),
        patch(f"{where}.safe_url_string", lambda url, **_: url),
    ):
        links = extractor.extract_links(response)
    return [(link.url, link.text[:LONGEST_TEXT]) for link in links]


def with_one_end(response: HtmlResponse) -> HtmlResponse:
    """Return a page without the ends in the middle of it, behind which Scrapy finds nothing."""
    end = b"</body></html>"
    before, _, behind = response.body.rpartition(end)
    return response.replace(body=before.replace(end, b"") + end + behind)


def ours(response: HtmlResponse, profile: Profile) -> list[tuple[str, str]]:
    """Return identity and text of what a crawl follows, each page once."""
    found: dict[str, str] = {}
    for url, text in links_of(response, profile)[0]:
        found.setdefault(canonicalize_url(url), text)
    return list(found.items())


@settings(max_examples=GENERATED)
@given(page=_PAGES, filters=_FILTERS, url=_URLS, charset=_CHARSETS)
def test_the_same_links_pass_as_with_scrapys_extractor(
    page: str, filters: dict[str, Any], url: str, charset: str
) -> None:
    """Lists the same links as Scrapy, for any page and any filters."""
    headers = {"Content-Type": f"text/html; charset={charset}"}
    response = HtmlResponse(url, body=page.encode(charset, "replace"), headers=headers)
    assert ours(response, Profile(**filters)) == scrapys(response, filters)


@pytest.mark.parametrize("part", range(8))
def test_pages_of_real_shape_have_the_links_that_scrapy_finds(part: int) -> None:
    """Shops, forums, manuals, listings; whatever their charset and their damage."""
    found = 0
    for number in range(part, SHAPED, 8):
        response = shaped_page(number)
        links = ours(response, Profile())
        assert links == scrapys(with_one_end(response), {}), f"page {number}"
        found += len(links)
    assert found > SHAPED / 8


@pytest.mark.parametrize("folder", FOLDERS)
def test_pages_on_this_machine_have_the_links_that_scrapy_finds(folder: str) -> None:
    """Every HTML file below a folder, as far as links are looked for."""
    pages = [path for path in Path(folder).rglob("*.htm*") if path.is_file()]
    assert pages
    for path in pages:
        response = HtmlResponse(URL, body=path.read_bytes()[:LONGEST_MARKUP])
        assert ours(response, Profile()) == scrapys(response, {}), path


@pytest.mark.parametrize("base", ["ftp://x.example/", "http://user@x.example/"])
def test_relative_references_lead_nowhere_where_the_base_is_not_crawled(base: str) -> None:
    """Counts them as filtered; whole addresses are followed."""
    page = html(
        f"<base href='{base}'><a href=/1>1</a><a href='?2'>2</a><a href=http://a.example/3>"
    )
    found, refused = links_of(page, Profile())
    assert ([url for url, _ in found], refused) == (["http://a.example/3"], {"url": 2})


def test_a_base_that_is_no_url_counts_as_none() -> None:
    """The page's own address takes its place."""
    page = html(f"<head>{HOPELESS_BASE}</head><a href=/x>x")
    assert links_of(page, Profile())[0] == [("http://127.0.20.11:28080/x", "x")]


def test_the_base_of_a_page_is_its_first_with_a_reference() -> None:
    """Finds the base wherever it stands, but not in a comment, a script or a template."""
    others = "<script>'<base href=/a/>'</script><template><base href=/b/></template>"
    late = f"{others}<!--<base href=/b/>--><style>{'x' * 9000}</style>"
    page = html(f"<head>{late}<base target=x><BASE HREF=/c/><base href=/d/></head><a href=x>x")
    assert links_of(page, Profile())[0] == [("http://127.0.20.11:28080/c/x", "x")]


@pytest.mark.parametrize(
    ("charset", "href", "asked"),
    [
        ("utf-16", "/x?a=1&b=ü", "/x?a=1&b=%C3%BC"),
        ("iso-8859-1", "/x?q=&#x65e5;ü", "/x?q=%26%2326085%3B%FC"),
        ("utf-8", "/index.php?/a;b&c", "/index.php?/a;b&c"),
    ],
)
def test_a_query_is_sent_as_browsers_send_it(charset: str, href: str, asked: str) -> None:
    """Sends a query in its page's charset; UTF-16 as UTF-8, lacking characters as references."""
    body = f'<a href="{href}">x</a>'.encode(charset)
    headers = {"Content-Type": f"text/html; charset={charset}"}
    links, refused = links_of(HtmlResponse(URL, body=body, headers=headers), Profile())
    assert links == [(f"http://127.0.20.11:28080{asked}", "x")]
    assert not refused


@pytest.mark.parametrize(
    "page",
    [
        "<html><body><a href=/1>1</a></body></html><div><a href=/2>2</a></div><a href=/3>3</a>",
        "<a href=/1>1</a></html><!-- c --><a href=/2>2</a></html>text<p><a href=/3>3</a>",
        "<base href=/></html><a href=1>1</a></html></html><a href=2>2</a></body><a href=3>3</a>",
    ],
)
def test_what_stands_behind_the_end_of_a_page_belongs_to_it(page: str) -> None:
    """Reads content behind the end of a page as browsers do."""
    links, refused = links_of(html(page), Profile())
    assert [(url.rpartition("/")[2], text) for url, text in links] == [
        (name, name) for name in ("1", "2", "3")
    ]
    assert not refused


def test_links_that_lead_nowhere_are_counted() -> None:
    """Links to other programs (``mailto:``) do not count."""
    hrefs = [
        "http://u@h/",
        "http://[",
        "//h..x/",
        "ftp://h/",
        " file:///x",
        "mailto:a",
        "Tel:1",
        "//",
    ]
    links, refused = links_of(html("".join(f"<a href='{href}'>" for href in hrefs)), Profile())
    assert (links, refused) == ([], {"url": 4, "scheme": 2})


def test_what_is_left_out_is_counted_by_reason() -> None:
    """Each filter counts what it leaves out."""
    page = html("<a href=/keep.html><a href=/no.pdf><a href=//other.example/><a href=/x?secret>")
    profile = Profile(allowed_domains=("127.0.20.11",), deny_regex=("secret",))
    links, refused = links_of(page, profile)
    assert [url for url, _ in links] == ["http://127.0.20.11:28080/keep.html"]
    assert refused == {"extension": 1, "domain": 1, "regex": 1}


@pytest.mark.parametrize(
    ("rule", "url", "passes"),
    [
        ("example.com", "http://example.com/", True),
        ("example.com", "https://sub.EXAMPLE.com:8443/", True),
        ("example.com", "http://notexample.com/", False),
        ("Example.com:8080", "http://sub.example.com:8080/", True),
        ("example.com:8080", "http://example.com/", False),
        ("example.com:80", "http://example.com/", True),
        ("example.com:443", "https://example.com/", True),
        ("127.0.0.5", "http://127.0.0.5:9000/", True),
        ("[::1]:8080", "http://[::1]:8080/", True),
        ("::1", "http://[::1]/", True),
    ],
)
def test_a_bare_host_matches_any_port_and_its_subdomains(rule: str, url: str, passes: bool) -> None:  # noqa: FBT001
    """Matches any port for a bare host, and only the named port otherwise."""
    links, _refused = links_of(html(f"<a href='{url}'>x</a>"), Profile(allowed_domains=(rule,)))
    assert bool(links) is passes


_RULES = st.sampled_from(
    [
        "a.example",
        "b.a.example",
        "A.example.",
        "a.example:80",
        "b.a.example:8080",
        "[::1]:80",
        "::1",
        "example",
        ".a.example",
        "",
        ":80",
        "a.example:x",
        "127.0.0.1",
    ]
)
_LED_TO = st.builds(
    "{}://{}{}/".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(
        [
            "a.example",
            "b.a.example",
            "xa.example",
            "a.example.",
            "c.b.a.example",
            "[::1]",
            "example",
        ]
    ),
    st.sampled_from(["", ":80", ":443", ":8080"]),
)


def is_covered(url: str, rule: str) -> bool:
    """The sentence of ``allowed_domains`` for one rule, word by word."""
    parts = urlparse(url)
    host, port = str(parts.hostname).removesuffix("."), parts.port
    match = re.fullmatch(r"([^:\[\]]+|\[.*\]):([0-9]+)", rule.lower())
    domain = (match[1] if match else rule.lower()).strip("[]").removesuffix(".")
    fits = bool(domain) and (host == domain or host.endswith("." + domain))
    return fits and (not match or int(match[2]) == (port or {"http": 80}.get(parts.scheme, 443)))


@given(st.lists(_RULES, max_size=4), _LED_TO)
def test_many_allowed_domains_mean_what_each_of_them_means(rules: list[str], url: str) -> None:
    """A URL is covered if one of the rules says so."""
    assert HostSet(rules).covers(address(url)) == any(is_covered(url, rule) for rule in rules)


def test_no_extension_is_missed_among_thousands() -> None:
    """Names with a dot in them too."""
    many = tuple(f"x{number}" for number in range(5000))
    hrefs = ("/a.x7", "/a.X4999", "/a.tar.gz", "/a.gz", "/x7", "/a.b/x7")
    page = html("".join(f"<a href={href}>" for href in hrefs))
    links, refused = links_of(page, Profile(deny_extensions=(*many, "tar.gz")))
    assert [url.rpartition("28080")[2] for url, _text in links] == ["/a.gz", "/x7", "/a.b/x7"]
    assert refused == {"extension": 3}


def test_texts_of_links_in_links_are_no_more_than_the_page_had() -> None:
    """Each is cut, and all of them together; the first have what they can."""
    nested = "".join(f"<a href=/{number}><b>" for number in range(1000))
    links, _refused = links_of(html(f"{nested}{'x' * 500_000}"), Profile())
    texts = [text for _url, text in links]
    assert len(texts) == 1000
    assert texts[0] == "x" * LONGEST_TEXT
    assert sum(map(len, texts)) <= ALL_TEXTS


def test_the_texts_of_an_honest_page_are_whole() -> None:
    """Keeps whole texts of links, as long as none stands in another."""
    cards = "".join(
        f"<a href=/{n}><div><h3>Card {n}</h3><p>of many</p></div></a>" for n in range(3000)
    )
    links, refused = links_of(html(cards), Profile())
    assert [text for _url, text in links] == [f"Card {n}of many" for n in range(3000)]
    assert not refused


def test_links_beyond_the_most_are_counted() -> None:
    """Different addresses count, not their repetitions."""
    hrefs = [f"/{number}" for number in range(MOST_LINKS + 5)]
    page = html("".join(f"<a href={href}>" for href in ["/0"] * 2_000 + hrefs))
    links, refused = links_of(page, Profile())
    assert len(links) == MOST_LINKS
    assert refused == {"too_many": 5}


def test_a_long_base_does_not_make_a_long_page() -> None:
    """The links are bounded together, however short they are in the page."""
    base = f"<base href='http://a.example/{'b' * 3000}/'>"
    page = html(base + "".join(f"<a href={number}>" for number in range(5000)))
    links, refused = links_of(page, Profile())
    characters = sum(len(url) for url, _text in links)
    assert characters < MOST_URL_CHARACTERS + 4096
    assert len(links) + refused["too_many"] == 5000


@pytest.mark.parametrize("kind", [Response, TextResponse, JsonResponse, XmlResponse])
def test_what_is_no_html_has_no_links(kind: type[Response]) -> None:
    """JSON, XML, text and binary are delivered without links, whatever they hold."""
    assert links_of(kind(URL, body=b'{"a": "<a href=/x>"}'), Profile()) == ([], {})


@pytest.mark.parametrize(
    "body", [b"", b"\x00\x01", b"<", b"<a href=", b"<a " * 5000, b"<div>" * 5000, b"\xff\xfe<\x00a"]
)
def test_no_markup_costs_the_page(body: bytes) -> None:
    """Publishes the record, whatever the parser makes of the page."""
    response = HtmlResponse(URL, body=body, headers={"Content-Type": "text/html"})
    links, _refused = links_of(response, Profile())
    assert isinstance(links, list)


def test_the_text_of_a_page_far_too_long_is_not_kept() -> None:
    """Data read of it for its links goes when they are found."""
    response = html(f"<a href=/first>{'<br>' * (2 * LONGEST_MARKUP)}")
    tracemalloc.start()
    try:
        links, _refused = links_of(response, Profile())
        kept, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [url for url, _text in links] == ["http://127.0.20.11:28080/first"]
    assert kept < LONGEST_MARKUP


def test_links_are_looked_for_within_a_limit() -> None:
    """Far down a page of elements without end nothing is found, and no tag is cut in two."""
    cut = LONGEST_MARKUP - len("<a href=/first>") - len("<a href=/sec")
    page = f"<a href=/first>{'<br>' * (cut // 4)}{' ' * (cut % 4)}<a href=/second>{'<br>' * 9}"
    links, _refused = links_of(html(page), Profile())
    assert [url for url, _text in links] == ["http://127.0.20.11:28080/first"]


ATTRIBUTES = "".join(f" a{n}" for n in range(9_000))


@pytest.mark.parametrize(
    "more",
    [f"<p {ATTRIBUTES}>", "x" * LONGEST_MARKUP],
    ids=["attributes", "length"],
)
def test_what_is_cut_off_is_counted(more: str) -> None:
    """Reads the links before what is too much, and says that it was not read to its end."""
    links, refused = links_of(html(f"<a href=/1>1</a>{more}<a href=/2>2</a>"), Profile())
    assert [text for _, text in links] == ["1"]
    assert refused["markup_cut"] == 1


TEXTS = "<!-- <a href=/no> --><script>'<a href=/no>'</script><textarea><a href=/no></textarea>"


@pytest.mark.parametrize("tag", ["<b>", "<font color={}>", "<div>", "<a><b>", "<ul><li>"])
@pytest.mark.parametrize("before", ["", "<br>" * MOST_DEEP_TAGS], ids=["few tags", "many tags"])
def test_links_are_found_however_deep_they_stand(tag: str, before: str) -> None:
    """Links in comments and scripts do not count there, either, and the base counts."""
    deep = f"{TEXTS}{''.join(map(tag.format, range(3_000)))}<a href=2>2</a>"
    base = "http://a.example/b/"
    links, refused = links_of(
        html(f"{before}<a href=1>1</a>{deep * 2}<base href={base}>"), Profile()
    )
    assert links == [(f"{base}1", "1"), (f"{base}2", "2")]
    assert not refused
