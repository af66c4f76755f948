"""The crawler reads on a page the same as Chromium."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from urllib.parse import quote

import pytest
import pytest_asyncio
from scrapy.http import HtmlResponse
from webencodings.labels import LABELS

from crawling.links.extract import links_of
from crawling.response.charset import codec_of, with_charset
from crawling.response.refresh import read, refresh_of
from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import Profile
from crawlstream.model.web.address import address, output_charset, resolved, without_fragment
from support.browser import Tab, chromium
from support.crawler.pages import shaped_page

DECLARATIONS = (
    "",
    '<meta charset="koi8-r">',
    "<META CHARSET=koi8-r>",
    "<meta charset='koi8-r'/>",
    "<meta name=a charset=koi8-r>",
    "<meta charset=nonsense><meta charset=koi8-r>",
    "<meta charset=utf-16>",
    "<meta charset=utf-16be>",
    "<meta charset=x-user-defined>",
    "<meta charset=iso-8859-1>",
    '<meta http-equiv=Content-Type content="text/html; charset=koi8-r">',
    '<meta content="text/html; charset=koi8-r" http-equiv=content-type>',
    "<meta http-equiv=content-type content='charset = \"koi8-r\"'>",
    '<meta http-equiv=content-type content="text/html;charset=koi8-r;x">',
    '<meta http-equiv=refresh content="charset=koi8-r">',
    '<meta content="text/html; charset=koi8-r">',
    '<meta http-equiv=content-type content="charset=koi8-r" charset=gbk>',
    "<!-- <meta charset=gbk> --><meta charset=koi8-r>",
    "<!--><meta charset=koi8-r>",
    "<!-- <meta charset=gbk>",
    "<a title='<meta charset=gbk>'><meta charset=koi8-r>",
    "</p <meta charset=gbk>><meta charset=koi8-r>",
    "<? <meta charset=gbk> ?><meta charset=koi8-r>",
    "<!doctype html><html lang=x><head><title>t</title><meta charset=koi8-r>",
    "<metacharset=gbk><meta charset=koi8-r>",
    "<meta/charset=koi8-r>",
    "<meta charset = koi8-r >",
    '<?xml version="1.0" encoding="koi8-r"?><p>',
    "<?xml version='1.0' encoding='utf-16'?><p>",
    '<?xml version="1.0"?><meta charset=koi8-r>',
    "<meta charset=gb_2312-80>",
    "<meta charset=x-sjis>",
    "<meta charset=ks_c_5601-1989>",
    "<meta charset=' koi8-r '>",
    "<meta charset>",
    "<meta charset=koi8-r",
)
"""Beginnings of pages, of which some declare a charset."""

words = str.split

SEED = 20260911
REFERENCES = 10_000
BASES = (
    "http://site.example/dir/page?q=1#part",
    "https://site.example:8443/a/b/../c;p=1/",
    "http://xn--bcher-kva.example",
)
BEGINNINGS = (
    *words("http:// https:// HTTP: http:/ https:/// // /// \\\\ /\\ / \\ ? # ./ ../ .. . %2e%2e/"),
    *("", "", "mailto:", "javascript:", "tel:", "x:"),
)
HOSTS = (
    *words("site.example Other.EXAMPLE faß.example bücher.example ☃.example \uff45x.example"),
    *words("münchen_1.example βόλος.example xn--fa-hia.example a..b - .. a. a_b.c"),
    *("\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.example", "a b", "a%20b", "ex%61mple"),
    *words("127.0.0.1 0x7f.1 2130706433 256.1.1.1 [::1] [1:2::3%25eth0] 1.2.3 09"),
    *words("user@site.example u:p@site.example site.example:80 site.example:443"),
    *words("site.example:0 site.example:99999 site.example:"),
)
PIECES = (
    *words("a b/c / // . .. /../ /./ \\ ; = & ? # : @ % %41 %7e %zz %C3%A9 %E9 + | ^ ` { } [ ]"),
    *words("< > \" ' ~ ! $ * ( ) , é 日本 😀 p=a.git;a=commit http://h.test/ %2e%2E"),
    *(" ", "\t", "\n", "\u200b", "\x01", "\x7f", "\ufeff", "\u0130", "index.php?/blog/view"),
)
PARTS = (
    *("text", "<p>", "<div>", "</div>", "<b>", "<ul><li>", "</a>", "</body></html>", "</head>"),
    *("<table><tr><td>", "</table>", "</form>", "<form>", "<area href=/area{}>"),
    *("<a href={}>x</a>", "<a href=../{}#f>", "<a title='<a href=/no>' href = '/{}?a=b&amp;c'>"),
    *("<base href=http://b{}.example/x/y>", "<base target=x>", "<!-- <a href=no{}> -->"),
    *("<textarea><base href=http://no/></textarea>", "<script>'<base href=//no{}>'</script>"),
    *(
        "<style><a href=no></style>",
        "<title><base href=//no></title>",
        "<iframe><a href=no></iframe>",
    ),
    *("<textarea><meta http-equiv=refresh content=0;no></textarea>", "<xmp><a href=no></xmp>"),
    *("<meta content='{};url=r{}' http-equiv=REFRESH>", "<meta http-equiv=refresh content=x>"),
    *("<select><option>", "</select>", "<font size={}>"),
)
CHARSETS = words("utf-8 windows-1252 windows-1251 shift_jis gbk euc-kr big5 koi8-r")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """A page of Chromium."""
    async with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield await browser.tab()


@pytest.mark.asyncio(loop_scope="module")
async def test_labels_of_charsets_mean_what_they_mean_to_chromium(tab: Tab) -> None:
    """Every label of the Encoding Standard stands for what `TextDecoder` makes of it."""
    labels = sorted(set(LABELS) - {"x-user-defined"})
    names = await tab.run(
        f"{json.dumps(labels)}.map(each => {{ try {{ return new TextDecoder(each).encoding }}"
        " catch { return 'replacement' } })"
    )
    assert {label: codec_of(label) for label in labels} == {
        label: codec_of(name) for label, name in zip(labels, names, strict=True)
    }
    assert None not in map(codec_of, labels)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_page_declares_the_charset_that_chromium_sees(tab: Tab) -> None:
    """The first bytes of a page are read for its charset as a browser reads them."""
    wrong = []
    for beginning in DECLARATIONS:
        await tab.go(f"data:text/html,{quote(beginning)}")
        theirs = codec_of(await tab.run("document.characterSet"))
        headers = {"Content-Type": "text/html"}
        response = HtmlResponse("http://a.example/", body=beginning.encode(), headers=headers)
        ours = with_charset(response).encoding  # type: ignore[attr-defined]
        if ours != theirs:
            wrong.append((beginning, ours, theirs))
    assert wrong == []


def references(count: int, seed: int) -> Sequence[str]:
    """Write references as people, programs and attackers do: most are nearly right."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        begin = chance.choice(BEGINNINGS)
        host = chance.choice(HOSTS) if "/" in begin and chance.random() < 0.8 else ""
        rest = "".join(chance.choice(PIECES) for _ in range(chance.randrange(6)))
        found.append(f"{begin}{host}{chance.choice(('', '/', '?')) if host else ''}{rest}")
    return found


def crawlable(href: str | None) -> str | None:
    """Return the address of what a browser has resolved; None where a crawler refuses it."""
    try:
        return address(href) if href else None
    except InvalidUrl:
        return None


def is_same(ours: str | None, theirs: str | None) -> bool:
    """Compare but for `|` in a path, which Chromium escapes and the URL Standard does not."""
    return (ours and ours.replace("|", "%7C")) == (theirs and theirs.replace("|", "%7C"))


@pytest.mark.asyncio(loop_scope="module")
async def test_references_lead_where_chromium_goes(tab: Tab) -> None:
    """Ten thousand references resolve as `new URL()` resolves them."""
    wrong = []
    for number, base in enumerate(BASES):
        these = references(REFERENCES // len(BASES), SEED + number)
        theirs = await tab.run(
            f"{json.dumps(these)}.map(each => {{ try {{"
            f" return new URL(each, {json.dumps(base)}).href }} catch {{ return null }} }})"
        )
        for reference, href in zip(these, theirs, strict=True):
            ours, expected = resolved(address(base), reference), crawlable(href)
            if not is_same(ours, expected):
                wrong.append((base, reference, ours, expected))
    assert wrong == []


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.asyncio(loop_scope="module")
async def test_links_of_a_page_lead_where_chromium_goes(tab: Tab, charset: str) -> None:
    """The query of a link is sent in the charset of its page, as `a.href` has it."""
    base = BASES[0]
    these = [each for each in references(400, SEED) if not each.isascii()]
    page = quote(f'<base href="{base}"><a>x</a>')
    await tab.go(f"data:text/html;charset={charset},{page}")
    theirs = await tab.run(
        f"(a => {json.dumps(these)}.map(each => {{ a.setAttribute('href', each);"
        " return a.protocol === ':' ? null : a.href }))(document.querySelector('a'))"
    )
    codec = "cp1252" if charset == "windows-1252" else charset
    wrong = [
        (reference, ours, crawlable(href))
        for reference, href in zip(these, theirs, strict=True)
        if not is_same(
            ours := resolved(address(base), reference, output_charset(codec)), crawlable(href)
        )
    ]
    assert wrong == []


def pages(count: int) -> Sequence[str]:
    """Write pages of many parts, and pages of real shape; all have a base.

    Without templates and SVG, which are another document and other elements to a script.
    """
    chance = random.Random(SEED)
    base = f"<base href='{BASES[0]}'>"
    mixed = [
        "".join(part.replace("{}", str(n)) for n, part in enumerate(chance.choices(PARTS, k=24)))
        for _ in range(count)
    ]
    shaped = [re.sub("(template|svg)(?=>)", "b", shaped_page(n).text) for n in range(count)]
    return [page + base for page in mixed] + [base + page for page in shaped]


@pytest.mark.asyncio(loop_scope="module")
async def test_pages_lead_where_chromium_sees_them_lead(tab: Tab) -> None:
    """Links, base and refresh are those of the document that a browser makes."""
    these = pages(120)
    theirs = await tab.run(
        f"{json.dumps(these)}.map(page => {{"
        " const made = new DOMParser().parseFromString(page, 'text/html');"
        " return [[...made.querySelectorAll('a[href],area[href]')].map(each => each.href),"
        " made.baseURI,"
        " [...made.querySelectorAll('meta[http-equiv=refresh i]')].map(each => each.content)] })"
    )
    wrong = []
    for page, (hrefs, base, refreshes) in zip(these, theirs, strict=True):
        response = HtmlResponse(BASES[0], body=page.encode(), encoding="utf-8")
        refresh = next(filter(None, map(read, refreshes)), None)
        found = (_places(links_of(response, Profile(deny_extensions=()))[0]), refresh_of(response))
        told = (
            _places((href, "") for each in hrefs if (href := crawlable(each))),
            refresh and (refresh[0], resolved(base, refresh[1])),
        )
        if found != told:
            wrong.append((page, found, told))
    assert wrong == []


def _places(links: Iterable[tuple[str, str]]) -> set[str]:
    return {without_fragment(url).replace("|", "%7C") for url, _text in links}
