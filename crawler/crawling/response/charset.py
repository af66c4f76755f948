"""The charset of a page, by the Encoding Standard's labels and in the HTML Standard's order.

A byte order mark counts first, then the header, then what the first bytes of the page declare. The
labels are the Standard's (``webencodings``), not the names of Python's codecs: ``gb_2312`` is GBK,
``ISO-8859-1`` is windows-1252, ``iso-8859-8-i`` is Hebrew. See https://encoding.spec.whatwg.org and
https://html.spec.whatwg.org (prescan a byte stream).
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

import webencodings
from scrapy.http import Response, TextResponse

from crawling.response.media_type import media_type

_FALLBACK = "cp1252"
"""Charset that browsers in most places assume, and that results have always named."""

_PIECE = 1 << 20
"""Bytes that are decoded at a time, only to see whether they can be: text may be four times as
large."""
_Utf8Decoder = codecs.getincrementaldecoder("utf-8")

_PRESCANNED = 4096
"""Bytes in which a page may declare its charset. The Standard asks for 1024 at least; browsers read
on while the head of the page lasts."""

_CODECS = {"gbk": "gb18030"}
"""Where the Standard decodes with more than Python's codec of that name has."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
)
_XML_IN_UTF_16 = {b"<\0?\0x\0": "utf-16-le", b"\0<\0?\0x": "utf-16-be"}
_XML = re.compile(rb"<\?xml(?=\s)[^>]*?\sencoding\s*=\s*(?:\"([^\">]*)\"|'([^'>]*)')[^>]*>")

_ATTRIBUTE = rb"[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*))?)?"
_ATTRIBUTES = re.compile(_ATTRIBUTE, re.DOTALL)
_END = re.compile(rb"[\s/]*>")
_TAG = re.compile(rb"(?is)<(?:!--(?:-?>|.*?-->|.*)|(meta)(?=[\s/])|(/?[a-z][^\s>]*)|[!/?][^>]*>?)")
"""Markup at which the prescan stops: a comment, a meta element, another element, the rest."""
_IN_CONTENT = re.compile(rb"charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"']+))", re.IGNORECASE)


def with_charset(response: Response) -> Response:
    """Return the response with its charset settled.

    Scrapy would believe any declaration, and guess by statistics where there is none, which takes
    seconds for a large page and reads a short one in Western European as Korean.
    """
    if not isinstance(response, TextResponse):
        return response
    charset = _declared(response) or _guessed(response.body)
    return response if response.encoding == charset else response.replace(encoding=charset)


@lru_cache(4096)
def codec_of(label: str) -> str | None:
    """Return the name of the codec that reads what a label stands for; None for no label."""
    found = webencodings.lookup(label)
    return _CODECS.get(found.name, str(found.codec_info.name)) if found else None


def _declared(response: TextResponse) -> str | None:
    body = response.body
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return codec
    return codec_of(media_type(response.headers).charset) or _prescanned(body[:_PRESCANNED])


def _prescanned(head: bytes) -> str | None:
    """Return the codec that the first bytes of a page declare."""
    if codec := _XML_IN_UTF_16.get(head[:6]):
        return codec
    if (xml := _XML.match(head)) and (codec := _of_ascii(xml[1] or xml[2] or b"")):
        return codec
    at = 0
    while tag := _TAG.search(head, at):
        at = tag.end()
        if tag[1] or tag[2]:
            codec, at = _of_element(head, at, is_meta=tag[1] is not None)
            if codec:
                return codec
    return None


def _of_element(head: bytes, at: int, *, is_meta: bool) -> tuple[str | None, int]:
    """Read the attributes of an element; return the codec that it declares, and where it ends."""
    found: dict[bytes, bytes] = {}
    while attribute := _ATTRIBUTES.match(head, at):
        at = attribute.end()
        if is_meta:
            name, double, single, plain = attribute.groups()
            found.setdefault(name.lower(), double or single or plain or b"")
    if not _END.match(head, at):
        return None, len(head)
    if b"charset" in found:
        return _of_ascii(found[b"charset"]), at
    if found.get(b"http-equiv", b"").lower() == b"content-type":
        content = _IN_CONTENT.search(found.get(b"content", b""))
        return content and _of_ascii(content[1] or content[2] or content[3] or b""), at
    return None, at


def _of_ascii(label: bytes) -> str | None:
    """Return the codec of a declaration that was read as ASCII, so that UTF-16 cannot be meant."""
    codec = codec_of(label.decode("latin-1"))
    if codec in {"utf-16-le", "utf-16-be"}:
        return "utf-8"
    return _FALLBACK if codec == "x-user-defined" else codec


def _guessed(body: bytes) -> str:
    return _FALLBACK if body.isascii() or not _is_utf8(body) else "utf-8"


def _is_utf8(body: bytes) -> bool:
    decoder = _Utf8Decoder()
    try:
        for start in range(0, len(body), _PIECE):
            decoder.decode(body[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _codec(name: str) -> codecs.CodecInfo | None:
    """Find the two codecs that the Standard has and Python does not."""
    found = webencodings.lookup(name.replace("_", "-"))
    is_foreign = found is not None and found.name in {"replacement", "x-user-defined"}
    return found.codec_info if found and is_foreign else None


codecs.register(_codec)
