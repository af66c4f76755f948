"""What the crawler reads on a page is what Chromium reads there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
import pytest_asyncio
from scrapy.http import HtmlResponse
from webencodings.labels import LABELS

from crawling.response.charset import codec_of, with_charset
from support.browser import Tab, chromium

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
