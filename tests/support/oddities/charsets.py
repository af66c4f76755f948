"""Charsets, as the queries of links show them: they are sent in the charset of their page."""

from __future__ import annotations

import codecs

from support.oddities.case import Case, Said, answer

_LINK = "<a href='/?q={word}'>x</a>"


def _page(label: str, codec: str, word: str, *, by: str = "header", head: str = "") -> Said:
    """Make a page whose charset is declared by its header or in itself."""
    if by == "meta":
        head += f"<meta charset={label}>"
    body = f"{head}{_LINK.replace('{word}', word)}".encode(codec)
    return answer(
        body, Content_Type=f"text/html; charset={label}" if by == "header" else "text/html"
    )


def _case(name: str, page: Said, query: str) -> Case:
    return Case(f"charset: {name}", {"/": page}, [f"/?q={query}"])


_LABELS = [
    ("iso-8859-8-i", "iso8859-8", "ש", "%F9"),
    ("x-gbk", "gbk", "你", "%C4%E3"),
    ("gb_2312", "gbk", "你", "%C4%E3"),
    ("windows-949", "cp949", "한", "%C7%D1"),
    ("ks_c_5601-1989", "cp949", "한", "%C7%D1"),
    ("x-euc-jp", "euc_jp", "日", "%C6%FC"),
    ("x-sjis", "cp932", "表", "%95\\"),
    ("x-cp1251", "cp1251", "П", "%CF"),
    ("koi8-ru", "koi8-u", "П", "%F0"),
    ("iso88592", "iso8859-2", "Ł", "%A3"),
    ("iso-8859-1", "cp1252", "€", "%80"),
    ("us-ascii", "cp1252", "é", "%E9"),
    ("ibm866", "cp866", "П", "%8F"),
    ("x-mac-cyrillic", "mac_cyrillic", "П", "%8F"),
    ("big5-hkscs", "big5", "中", "%A4%A4"),
    ("unicode-1-1-utf-8", "utf-8", "é", "%C3%A9"),
    ("iso-2022-jp", "iso2022_jp", "日", "%1B$BF|%1B(B"),
    ("gb18030", "gb18030", "😀", "%949%FC6"),
    ("utf-7", "cp1252", "+AGE-", "+AGE-"),
]
"""A label, what it means to Python, a word, and how that is sent."""

_CHINESE = "<?xml version='1.0' encoding='gbk'?>"

CHARSETS = [
    *(
        _case(f"{label} {word}", _page(label, codec, word), sent)
        for label, codec, word, sent in _LABELS
    ),
    _case(
        "in quotes",
        answer(b"<a href='/?q=\xe9'>x</a>", Content_Type='text/html; charset="l1"'),
        "%E9",
    ),
    _case(
        "in a quote that is left open",
        answer(b"<a href='/?q=\xe9'>x</a>", Content_Type='text/html; charset="l1'),
        "%E9",
    ),
    *(
        _case(
            f"{said} in the header, and one in the page",
            answer(
                "<meta charset=koi8-r><a href='/?q=П'>x</a>".encode("koi8-r"),
                Content_Type=f"text/html; charset={said}",
            ),
            "%F0",
        )
        for said in ("nothing", "", "'utf-8'")
    ),
    _case(
        "another parameter first",
        answer(b"<a href='/?q=\xcf'>x</a>", Content_Type="text/html; level=1; charset=cp1251;"),
        "%CF",
    ),
    _case("meta", _page("koi8-r", "koi8-r", "П", by="meta"), "%F0"),
    _case(
        "the first of two",
        _page("koi8-r", "koi8-r", "П", by="meta", head="<meta charset=x>"),
        "%F0",
    ),
    _case(
        "of a script is not that of the page",
        _page("koi8-r", "koi8-r", "П", by="meta", head="<script charset=gbk></script>"),
        "%F0",
    ),
    _case(
        "in a comment",
        _page("koi8-r", "koi8-r", "П", by="meta", head="<!-- <meta charset=gbk> -->"),
        "%F0",
    ),
    _case(
        "behind a kilobyte",
        _page("koi8-r", "koi8-r", "П", by="meta", head=f"<!-- {'x' * 1500} -->"),
        "%F0",
    ),
    _case(
        "the header before the page",
        answer("<meta charset=gbk><a href='/?q=é'>x</a>", Content_Type="text/html; charset=utf-8"),
        "%C3%A9",
    ),
    _case(
        "a mark before the header",
        answer(
            codecs.BOM_UTF8 + "<a href='/?q=é'>x</a>".encode(),
            Content_Type="text/html; charset=gbk",
        ),
        "%C3%A9",
    ),
    _case(
        "XML declaration",
        answer(f"{_CHINESE}<a href='/?q=你'>x</a>".encode("gbk"), Content_Type="text/html"),
        "%C4%E3",
    ),
    _case("UTF-16 that its bytes disprove", _page("utf-16le", "utf-8", "é", by="meta"), "%C3%A9"),
    _case(
        "UTF-16 in an XML declaration",
        answer(
            "<?xml version='1.0' encoding='utf-16'?><a href='/?q=1'>x</a>", Content_Type="text/html"
        ),
        "1",
    ),
    _case(
        "UTF-16 with a mark",
        answer("\ufeff<a href='/?q=é'>x</a>".encode("utf-16-le"), Content_Type="text/html"),
        "%C3%A9",
    ),
    _case(
        "UTF-16, big endian",
        answer("\ufeff<a href='/?q=é'>x</a>".encode("utf-16-be"), Content_Type="text/html"),
        "%C3%A9",
    ),
    _case("UTF-16 by header", _page("utf-16", "utf-16-le", "é"), "%C3%A9"),
    _case("none, and UTF-8", answer("<a href='/?q=é'>x</a>", Content_Type="text/html"), "%C3%A9"),
    _case(
        "none, and no UTF-8", answer(b"<a href='/?q=\xe9'>x</a>", Content_Type="text/html"), "%E9"
    ),
    _case("a label of nothing", _page("nonsense", "utf-8", "é"), "%C3%A9"),
    _case("characters that it lacks", _page("iso-8859-1", "cp1252", "&#x65e5;"), "%26%2326085%3B"),
    _case("octets that are none of it", answer(b"<a href='/?q=\xff'>x</a>"), "%EF%BF%BD"),
    Case(
        "charset: paths are UTF-8 whatever the page is",
        {"/": _page("windows-1251", "cp1251", "1' title='П'><a href='/П?П#П")},
        ["/?q=1", "/%D0%9F?%CF"],
    ),
]
