"""URLs of sitemaps and feeds, and how far they are read."""

from __future__ import annotations

import gzip

import pytest

from crawlstream_extract.sitemaps import MOST_LISTED, SitemapEntry, listing_of
from support.hostile.markup import cpu_s

HERE = "http://a.example/maps/sitemap.xml"
SITEMAPS = b'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def pages(body: bytes, url: str = HERE) -> list[SitemapEntry]:
    """The pages that a file lists, all of it read."""
    found = listing_of(url, body)
    assert not found.refused
    return found.pages


def test_a_sitemap_lists_pages_and_an_index_sitemaps() -> None:
    """With the times of their last change, if stated."""
    listed = b"<%b><loc> http://a.example/1 </loc><lastmod>2026-11-22</lastmod></%b>"
    page = (
        b"<urlset %b>" % SITEMAPS + listed % (b"url", b"url") + b"<url><loc>/2</loc></url></urlset>"
    )
    found = listing_of(HERE, page)
    expected = [
        SitemapEntry("http://a.example/1", "", "2026-11-22"),
        SitemapEntry("http://a.example/2"),
    ]
    assert (found.pages, found.sitemaps) == (expected, [])
    index = b"<sitemapindex>" + listed % (b"sitemap", b"sitemap") + b"</sitemapindex>"
    found = listing_of(HERE, gzip.compress(index))
    assert (found.pages, found.sitemaps) == ([], expected[:1])


def test_feeds_list_pages_with_their_titles() -> None:
    """RSS 2 and 1, Atom; the feed's own address is none of them."""
    item = b"<item><title>A &amp; B</title><link>http://a.example/1</link>%b</item>"
    date = b"<pubDate>Sun, 06 Nov 1994 08:49:37 GMT</pubDate>"
    rss = b"<rss><channel><link>http://a.example/</link>" + item % date + b"</channel></rss>"
    assert pages(rss) == [SitemapEntry("http://a.example/1", "A & B", "1994-11-06T08:49:37+00:00")]
    rdf = b'<rdf:RDF xmlns:rdf="r" xmlns:dc="d">' + item % b"<dc:date>2026-11</dc:date>"
    assert pages(rdf + b"</rdf:RDF>") == [SitemapEntry("http://a.example/1", "A & B", "2026-11")]
    atom = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://a.example/"/><entry>'
        b'<link rel="edit" href="/no"/><link href="/1"/><published>2025-01-01</published>'
        b"<updated>2026-11-22T10:00:00Z</updated></entry></feed>"
    )
    assert pages(atom) == [SitemapEntry("http://a.example/1", "", "2026-11-22T10:00:00Z")]
    guid = b"<rss><item><guid>http://a.example/g</guid></item>"
    other = b"<item><guid isPermaLink='false'>http://a.example/x</guid></item></rss>"
    assert pages(guid + other) == [SitemapEntry("http://a.example/g")]


def test_robots_txt_names_sitemaps() -> None:
    """In any case, whole or not, each once; a byte order mark does not belong to the first line."""
    body = b"Sitemap: http://a.example/1.xml\r\n sitemap:/2.xml\nUser-agent: *\nDisallow: /\n" * 2
    body = b"\xef\xbb\xbf" + body
    found = listing_of("http://a.example/robots.txt", body)
    assert [one.url for one in found.sitemaps] == [
        "http://a.example/1.xml",
        "http://a.example/2.xml",
    ]


LLMS_TXT = "http://a.example/llms.txt"


@pytest.mark.parametrize(
    ("written", "urls"),
    [
        ("[A](/1) [B](<2> 'b') [C]( http://b.example/3 )", ["/1", "/2", "http://b.example/3"]),
        ("[A](/x_(y)) [A](/x_(y)(z)", ["/x_(y)"]),
        ("![A](/no.png) [![A](/no.png)](/1)", ["/1"]),
        ("[A](/?a&amp;b) [A](/\N{LATIN SMALL LETTER E WITH ACUTE})", ["/?a&b", "/%C3%A9"]),
        ("[A](#part) [A](mailto:a@a.example) [A]() [A] (/no)", []),
        ("A](/no)", []),
        ("```js\na[0](no)\n```\n[A](/1)\n~~~\n[A](/no)", ["/1"]),
        ("[A\n line](/1)\r\n[B](/2", ["/1"]),
    ],
)
def test_llms_txt_lists_its_links(written: str, urls: list[str]) -> None:
    """As Markdown has them, but no images and no code."""
    found = listing_of(LLMS_TXT, b"\xef\xbb\xbf# A\n" + written.encode()).pages
    assert [one.url.removeprefix("http://a.example") for one in found] == urls


def test_llms_txt_is_bounded() -> None:
    """By its links, by its bytes, unpacked; the page of a site that has none is not read."""
    many = b"".join(b"- [Page %d](/%d)\n" % (number, number) for number in range(5_007))
    found = listing_of(LLMS_TXT, many)
    assert (len(found.pages), found.refused) == (5_000, {"too_many": 7})
    assert found.pages[-1].title == "Page 4999"
    long = b"[A](/1)\n" + b" " * (1 << 20) + b"[A](/2)"
    for body in (long, gzip.compress(long), gzip.compress(long)[:-20]):
        found = listing_of(LLMS_TXT, body)
        assert ([one.url[-2:] for one in found.pages], found.refused) == (
            ["/1"],
            {"sitemap_cut": 1},
        )
    for page in (b"<!doctype html>[A](/1)", b" <!-- x -->\n<html>[A](/1)", b"<?xml?>[A](/1)"):
        assert listing_of(LLMS_TXT, page).refused == {"sitemap_unread": 1}


@pytest.mark.parametrize(
    "piece",
    ["[", "](", "[a](", "[a](b", "[a]((b)", "[a](x(y)", "![", "```\n", "~~~", "[a](<", "(", "\n"],
)
def test_llms_txt_costs_what_its_length_allows(piece: str) -> None:
    """Four times the length costs no more than eight times the CPU."""
    short, long = ("# A\n" + piece * (size // len(piece)) for size in (1 << 18, 1 << 20))
    spent_s = cpu_s(lambda: listing_of(LLMS_TXT, long.encode()))
    assert spent_s < 0.7
    assert spent_s < 0.1 or spent_s < 8 * cpu_s(lambda: listing_of(LLMS_TXT, short.encode()))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (b"http://a.example/?a&amp;b", "http://a.example/?a&b"),
        (b"http://a.example/?a&b=1&copy=2", "http://a.example/?a&b=1&copy=2"),
        (b"http://a.example/?a&amp;amp;b", "http://a.example/?a&b"),
        (b"<![CDATA[http://a.example/?a&b]]>", "http://a.example/?a&b"),
        (b"http://a.example/&#233;", "http://a.example/%C3%A9"),
        ("http://a.example/é".encode(), "http://a.example/%C3%A9"),
    ],
)
def test_an_ampersand_is_what_was_meant(written: bytes, meant: str) -> None:
    """Escaped, forgotten, twice, or in CDATA; wherever the file is cut into pieces."""
    for spaces in (0, 65_520, 65_530, 65_534):
        body = b"<urlset><url>" + b" " * spaces + b"<loc>" + written + b"</loc></url></urlset>"
        assert [one.url for one in pages(body)] == [meant]


def test_other_charsets_are_read() -> None:
    """As the file declares them."""
    text = '<?xml version="1.0" encoding="{}"?><urlset><url><loc>/é?a&amp;b</loc></url></urlset>'
    for charset in ("utf-16", "iso-8859-1", "utf-8-sig"):
        (page,) = pages(text.format(charset.removesuffix("-sig")).encode(charset))
        assert page.url == "http://a.example/%C3%A9?a&b"
    (page,) = pages(text.replace("é", "한").format("windows-949").encode("cp949"))
    assert page.url == "http://a.example/%ED%95%9C?a&b"


@pytest.mark.parametrize(
    ("declared", "charset"),
    [
        ("utf-16", "utf-8"),
        ("utf-16", "utf-8-sig"),
        ("utf-16", "utf-16-le"),
        ("utf-8", "utf-16"),
        ("utf-8", "utf-16-be"),
        ("utf-8", "iso-8859-1"),
        ("nonsense", "utf-8"),
    ],
)
def test_a_charset_that_the_bytes_disprove_is_not_believed(declared: str, charset: str) -> None:
    """Programs write a declaration without looking at what follows."""
    text = (
        f"<?xml version='1.0' encoding='{declared}'?><urlset><url><loc>/é?a&b</loc></url></urlset>"
    )
    assert [one.url for one in pages(text.encode(charset))] == ["http://a.example/%C3%A9?a&b"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_text_with_a_url_in_each_line_is_a_sitemap(end: bytes) -> None:
    """Packed or not, in UTF-8 or UTF-16, with a mark or without; other lines list nothing."""
    lines = [b"http://a.example/1?a&b", b"", b" HTTPS://a.example/\xc3\xa9 ", b"/2", b"a http://b/"]
    body = end.join(lines)
    expected = [SitemapEntry("http://a.example/1?a&b"), SitemapEntry("https://a.example/%C3%A9")]
    for each in (body, b"\xef\xbb\xbf" + body, body.decode().encode("utf-16"), gzip.compress(body)):
        assert pages(each, "http://a.example/sitemap.txt") == expected
    many = end.join(b"http://a.example/%d" % number for number in range(MOST_LISTED + 7))
    found = listing_of(HERE, many)
    assert (len(found.pages), found.refused) == (MOST_LISTED, {"too_many": 7})
    assert listing_of(HERE, end * 900_000).refused == {"sitemap_cut": 1}


@pytest.mark.parametrize(
    "noise",
    [
        b"\n \n",
        b"<br />\n<b>Warning</b>: Undefined variable in <b>/x.php</b><br />\n",
        b"Notice: something in line 3\n",
        b"<!-- cached -->",
    ],
)
def test_what_a_program_writes_before_the_sitemap_is_passed_over(noise: bytes) -> None:
    """With a declaration behind it, or without."""
    for declaration in (b"", b'<?xml version="1.0" encoding="UTF-8"?>'):
        body = noise + declaration + b"<urlset><url><loc>/1</loc></url></urlset>"
        assert pages(body) == [SitemapEntry("http://a.example/1")]


def test_what_is_of_another_namespace_says_nothing_of_an_item() -> None:
    """But for times, which RSS 1 has no element for."""
    spaces = (
        b'xmlns:atom="http://www.w3.org/2005/Atom" xmlns:i="http://www.google.com/schemas/image"'
        b' xmlns:x="http://www.w3.org/1999/xhtml" xmlns:dc="d"'
    )
    rss = (
        b"<rss %b><channel><item><atom:link rel='self' href='/self'/><i:title>no</i:title>"
        b"<link>/1</link><dc:date>2026-11</dc:date></item></channel></rss>" % spaces
    )
    assert pages(rss) == [SitemapEntry("http://a.example/1", "", "2026-11")]
    own = b"<{0}urlset xmlns{1}='http://www.sitemaps.org/schemas/sitemap/0.9' %b><{0}url>" % spaces
    own += b"<i:loc>/no</i:loc><x:link rel='alternate' href='/de'/><{0}loc>/2</{0}loc></{0}url>"
    for prefix, declared in ((b"", b""), (b"s:", b":s")):
        body = own.replace(b"{0}", prefix).replace(b"{1}", declared) + b"</%burlset>" % prefix
        assert pages(body) == [SitemapEntry("http://a.example/2")]
    empty = b"<rss><item><link/><guid>http://a.example/g</guid><link>/3</link></item></rss>"
    assert pages(empty) == [SitemapEntry("http://a.example/3")]


def test_urls_are_resolved_by_the_base_of_their_element() -> None:
    """The innermost one, itself resolved; the file's own URL without any."""
    feed = (
        b"<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://b.example/blog/'>"
        b"<entry xml:base='2026/'><link href='1'/></entry>"
        b"<entry><link xml:base='/x/' href='2'/></entry><entry><link href='/3'/></entry></feed>"
    )
    assert [one.url for one in pages(feed)] == [
        "http://b.example/blog/2026/1", "http://b.example/x/2", "http://b.example/3",
    ]  # fmt: skip


def test_items_that_nobody_has_closed_are_items() -> None:
    """Two locations in one, or one item in another; an item at the end of a file as well."""
    found = pages(b"<urlset><url><loc>/1</loc><loc>/2</loc></url></urlset>")
    assert [one.url for one in found] == ["http://a.example/1", "http://a.example/2"]
    body = b"<sitemapindex><sitemap><loc>/1</loc><sitemap><loc>/2</loc><sitemap><loc>/3</loc>"
    found_in = listing_of(HERE, body)
    assert [one.url[-1] for one in found_in.sitemaps] == ["1", "2", "3"]
    assert found_in.refused == {"sitemap_cut": 1}


def test_what_is_about_pictures_is_no_page() -> None:
    """Nor what stands in another place than it should."""
    image = b"<image:image><image:loc>http://a.example/i</image:loc></image:image>"
    body = b'<urlset xmlns:image="i"><loc>/no</loc><url>' + image + b"<loc>/1</loc></url></urlset>"
    assert [one.url for one in pages(body)] == ["http://a.example/1"]


@pytest.mark.parametrize(
    "body",
    [b"", b"<html><a href=/x>x</a>", b"\x89PNG\r\n", b"plain text", b"<?xml version='1.0'?><a/>"],
)
def test_what_is_neither_lists_nothing_and_says_so(body: bytes) -> None:
    """It is a page like any other; a sitemap without pages is one."""
    found = listing_of(HERE, body)
    assert (found.pages, found.sitemaps, found.refused) == ([], [], {"sitemap_unread": 1})
    for empty in (b"<urlset/>", b"<rss><channel/></rss>"):
        assert pages(empty) == []


def test_documents_that_were_joined_to_one_file_are_all_read() -> None:
    """Wherever the file is cut into pieces; a declaration within a text begins none."""
    declared = b"<?xml version='1.0' encoding='utf-8'?><urlset><url><loc>/%d</loc></url></urlset>"
    for spaces in (0, 65_400, *range(65_440, 65_470), 70_000):
        parts = [declared % 1 + b" " * spaces + b"\n", declared % 2, declared % 3]
        for body in (b"".join(parts), b"".join(map(gzip.compress, parts))):
            assert [one.url[-1] for one in pages(body)] == ["1", "2", "3"]
    quoted = b"<title><![CDATA[<?xml version='1.0'?><a>]]></title>"
    item = b"<rss><item>" + quoted + b"<link>/1</link></item><item><link>/2</link></item></rss>"
    assert [one.url[-1] for one in pages(item)] == ["1", "2"]


@pytest.mark.parametrize("root", ["urlset", "rss", "sm:urlset", "feed"])
@pytest.mark.parametrize("between", [b"", b"\n", b"<!-- x -->", b"<?x y?>", b" " * 65_445])
def test_documents_may_be_joined_without_declarations(root: str, between: bytes) -> None:
    """Each root element begins one; wherever the file is cut into pieces."""
    head = f'<{root} xmlns:sm="s"'.encode()
    for spaces in (0, *range(65_360, 65_450, 7)):
        parts = (
            head + b" " * spaces + b"><url><loc>/%d</loc></url></%b>" % (number, root.encode())
            for number in range(3)
        )
        assert [one.url[-1] for one in pages(between.join(parts))] == ["0", "1", "2"]


def test_there_are_no_entities() -> None:
    """Entities of a document type are never expanded, nor fetched."""
    declared = (
        b'<!DOCTYPE u [<!ENTITY a "http://a.example/"><!ENTITY b SYSTEM "file:///etc/passwd">]>'
    )
    for name in (b"a", b"b"):
        body = declared + b"<urlset><url><loc>http://a.example/&%b;</loc></url></urlset>" % name
        assert {one.url for one in listing_of(HERE, body).pages} <= {
            f"http://a.example/&{name.decode()};"
        }


def test_what_was_read_before_the_end_counts() -> None:
    """A file that breaks off, or stops being XML, has listed something; and says so."""
    whole = b"<urlset>" + b"".join(b"<url><loc>/%d</loc></url>" % n for n in range(9_999))
    packed = gzip.compress(whole + b"</urlset>")
    found = listing_of(HERE, packed[: len(packed) // 2])
    assert 0 < len(found.pages) < 9_999
    assert found.refused == {"sitemap_cut": 1}
    broken = listing_of(HERE, whole[: len(whole) // 2])
    assert len(broken.pages) > 4_000
    assert broken.refused == {"sitemap_cut": 1}
    coded = listing_of(HERE, whole + b"</urlset>", is_whole=False)
    assert (len(coded.pages), coded.refused) == (9_999, {"sitemap_cut": 1})


def test_no_more_than_the_format_allows() -> None:
    """Entries beyond it are counted."""
    body = b"<urlset>" + b"<url><loc>/x</loc></url>" * (MOST_LISTED + 7) + b"</urlset>"
    found = listing_of(HERE, body)
    assert (len(found.pages), found.refused) == (MOST_LISTED, {"too_many": 7})
    deep = listing_of(HERE, b"<urlset>" + b"<a>" * 200_000)
    assert deep.refused == {"sitemap_cut": 1}


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-45T99", "1" * 400, "22.11.2026"])
def test_a_date_that_is_none_is_left_out(text: str) -> None:
    """The page has no version then."""
    body = f"<urlset><url><loc>/1</loc><lastmod>{text}</lastmod></url></urlset>".encode()
    assert pages(body) == [SitemapEntry("http://a.example/1")]


@pytest.mark.parametrize("spaces", [0, 65_300, 65_400])
@pytest.mark.parametrize("more", [b"<a" * 200, b"<?xml version='1.0'?><urlset/>" * 1_001])
def test_a_file_is_read_up_to_what_would_cost_the_parser_more_than_its_length(
    more: bytes, spaces: int
) -> None:
    """Tags that do not end, and documents without end, are counted and not read."""
    first, last = b"<url><loc>/1</loc></url>", b"<url><loc>/2</loc></url></urlset>"
    found = listing_of(HERE, b"<urlset>" + first + b" " * spaces + more + b">" + last)
    assert [one.url[-2:] for one in found.pages] == ["/1"]
    assert found.refused["sitemap_cut"] == 1


def test_text_may_hold_angles() -> None:
    """In CDATA, as feeds quote programs and pages."""
    text = b"<title><![CDATA[" + b"a < b " * 100 + b"<p>" * 1_000 + b"]]></title>"
    assert len(pages(b"<rss><item>" + text + b"<link>/1</link></item></rss>")) == 1
