"""The media type of a response is read from its headers as the Fetch Standard says."""

from __future__ import annotations

import pytest
from scrapy.http import Headers

from crawling.response.media_type import media_type


@pytest.mark.parametrize(
    ("headers", "essence", "charset"),
    [
        ([], "", ""),
        (["text/html"], "text/html", ""),
        (["Text/HTML ; Charset=GBK"], "text/html", "GBK"),
        (['text/html; charset="gbk"'], "text/html", "gbk"),
        (['text/html; a="x;charset=koi8-r"; charset=gbk'], "text/html", "gbk"),
        (["text/html;charset=gbk;charset=koi8-r"], "text/html", "gbk"),
        (["text/html; charset= gbk "], "text/html", "gbk"),
        (["text/html; charset=iso_8859-2:1987"], "text/html", "iso_8859-2:1987"),
        (["text/html, text/html; charset=utf-8"], "text/html", "utf-8"),
        (["text/html;charset=gbk", "text/plain"], "text/plain", ""),
        (["text/html;charset=gbk", "text/plain", "text/html"], "text/html", ""),
        (["text/html;charset=gbk", "x/x", "text/html;x=1"], "text/html", ""),
        (["text/html;charset=gbk", "*/*"], "text/html", "gbk"),
        (["text/html;charset=gbk", "nonsense"], "text/html", "gbk"),
        (["text/plain", "", "text/html; charset=gbk"], "text/html", "gbk"),
        (['text/html;x=",text/plain"'], "text/html", ""),
        (['text/html;"', "text/plain"], "text/html", ""),
        (["nonsense"], "", ""),
        (["*/*"], "", ""),
        (["text/"], "", ""),
        (["image/svg+xml"], "image/svg+xml", ""),
    ],
)
def test_the_last_type_counts_with_the_charset_of_its_kind(
    headers: list[str], essence: str, charset: str
) -> None:
    """Joins several headers, passes over what is no type, and keeps a charset for the same type."""
    assert media_type(Headers({"Content-Type": headers})) == (essence, charset)
