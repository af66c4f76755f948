"""Addresses: URLs as browsers read them, by the URL Standard (https://url.spec.whatwg.org).

An *address* is the URL that is sent: the URL as it was written, changed only where the Standard
changes it (scheme and host in lower-case ASCII, dot segments, backslashes, characters that a
request may not contain). Its query is never sorted, completed or decoded. Two addresses of one page
share an *identity*, ``model.url.fingerprint``, which is never sent.

Four things that the Standard accepts are refused: schemes other than http and https, user names and
passwords, hosts that cannot be in the DNS, and port 0. A trailing dot of a host is removed: it
would make a second name of the same site.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

import ada_url

from crawlstream.errors import InvalidUrl

MAX_URL_LENGTH = 2083
"""Characters of an address; Scrapy's limit, and that of the oldest browsers."""

_LONGEST_TEXT = 16 * MAX_URL_LENGTH
"""Longer text is refused unread. A fragment, which is dropped, may be long, but not unlimited."""

_HOSTS_REMEMBERED = 65536
"""Hosts whose checks are cached: about 15 MB. A broad crawl meets each host often."""

_ADDRESS = re.compile(r"(https?)://([^/?#]*)(.*)", re.DOTALL)
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"[\x00-\x20]*[A-Za-z]+:[/\\]*([^/\\?#]*)")
_PORT = re.compile(r":([0-9]*)\Z")
_SURROGATES = re.compile("[\ud800-\udfff]")
_BETWEEN_BRACKETS = re.compile(r"\[[^\]]*\]")
_NOT_IN_HOST = re.compile(r"[:@\[\]]")
_WEB = ("http", "https")

_STRIPPED = "".join(map(chr, range(0x21)))
"""Characters that the Standard strips around a URL: the C0 controls and the space."""
_IGNORED = str.maketrans("", "", "\t\n\r")
"""Characters that the Standard removes anywhere in a URL."""
_SENT_AS_IT_IS = frozenset(range(0x21, 0x7F)) - frozenset(b"\"#<>'")
_ESCAPED = tuple(chr(byte) if byte in _SENT_AS_IT_IS else f"%{byte:02X}" for byte in range(256))
"""Each byte of a query, percent-encoded where the Standard does so."""


def address(url: str) -> str:
    """Return the address of an absolute URL, fragment included.

    Raise InvalidUrl with a sentence that says why the URL cannot be crawled.
    """
    if len(url) > _LONGEST_TEXT:
        raise InvalidUrl(f"the URL is longer than {MAX_URL_LENGTH} characters")
    try:
        return _checked(ada_url.normalize_url(_encodable(url)))
    except ValueError as error:
        raise InvalidUrl(_why_unreadable(url)) from error


def resolved(base: str, reference: str | bytes, charset: str = "utf-8") -> str | None:
    """Return the address that a reference of a document leads to, fragment included.

    Return None if the target cannot be crawled. ``base`` is an address. ``charset`` is the output
    encoding of the document, in which the query of its references is sent. A reference in octets,
    as headers have it, is read as UTF-8; octets that are not UTF-8 are percent-encoded.
    """
    if len(reference) > _LONGEST_TEXT:
        return None
    if isinstance(reference, bytes):
        reference = reference.decode("utf-8", _OCTETS)
    if charset != "utf-8" and not reference.isascii():
        reference = _with_query_in(reference, charset)
    try:
        return _checked(ada_url.join_url(base, _encodable(reference)))
    except (ValueError, InvalidUrl):
        return None


def document_base(url: str, href: str) -> str:
    """Return the URL that references of a page at ``url`` are relative to, by its base element.

    It may have a scheme that is not crawled; then no reference of the page can be followed. See
    "document base URL" in https://html.spec.whatwg.org.
    """
    try:
        found: str = ada_url.join_url(url, _encodable(href[:_LONGEST_TEXT]))
    except ValueError:
        return url
    return url if found.startswith(("data:", "javascript:")) else found


def without_fragment(url: str) -> str:
    """Return an address without its fragment, which is never sent."""
    return url.partition("#")[0]


def output_charset(charset: str) -> str:
    """Return the charset in which links of a document are sent: its output encoding.

    ``charset`` is the name of a Python codec. See https://encoding.spec.whatwg.org.
    """
    return "utf-8" if charset.lower().replace("_", "-").startswith("utf-") else charset


def _encodable(text: str) -> str:
    """Return text with U+FFFD in place of lone surrogates, as the Standard reads it."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _checked(url: str) -> str:
    """Return a normalized URL if it can be crawled, without a trailing dot of its host.

    Raise InvalidUrl otherwise.
    """
    parts = _ADDRESS.match(url)
    if parts is None:
        raise InvalidUrl(f"the scheme {url.partition(':')[0][:20]!r} is not http or https")
    scheme, authority, rest = parts.groups()
    host, problem = _host_and_port(authority)
    if problem:
        raise InvalidUrl(problem)
    return url if host == authority else f"{scheme}://{host}{rest}"


@lru_cache(_HOSTS_REMEMBERED)
def _host_and_port(authority: str) -> tuple[str, str]:
    """Return host and port without a trailing dot, and why they cannot be used ("" if they can)."""
    if "@" in authority:
        return "", "user names and passwords in a URL are not supported"
    port = _PORT.search(authority)
    if port and int(port[1]) == 0:
        return "", "0 is not a valid port"
    if authority.startswith("["):
        return authority, ""
    host = authority[: port.start()] if port else authority
    name = host.removesuffix(".")
    if not _NAME.fullmatch(name):
        return "", f"{host[:100]!r} is not a valid host name"
    return name + (port[0] if port else ""), ""


def _why_unreadable(url: str) -> str:
    """Return the error sentence for text that the Standard does not accept as a URL."""
    if not url.strip(_STRIPPED):
        return "the URL is empty"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "the URL has no scheme"
    if scheme[1].lower() not in _WEB:
        return f"the scheme {scheme[1][:20]!r} is not http or https"
    found = _AUTHORITY.match(url)
    authority = found[1] if found else ""
    return _why_no_place(authority) if authority else "the URL has no host"


def _why_no_place(authority: str) -> str:
    """Return the error sentence for text that is not a host with an optional port."""
    port = _PORT.search(authority)
    if port and port[1] and int(port[1]) > 65535:
        return f"{port[1][:20]} is not a valid port"
    host = authority[: port.start()] if port else authority
    if _BETWEEN_BRACKETS.fullmatch(host):
        return f"{host[:100]!r} is not a valid IPv6 address"
    if not _NOT_IN_HOST.search(host):
        return f"{host[:100]!r} is not a valid host name"
    return f"{authority[:100]!r} is not a host with an optional port"


def _with_query_in(reference: str, charset: str) -> str:
    """Return a reference whose query is encoded in a charset and then percent-encoded."""
    reference = reference.strip(_STRIPPED).translate(_IGNORED)
    before, hash_, fragment = reference.partition("#")
    path, mark, query = before.partition("?")
    if query.isascii():
        return reference
    octets = query.encode(charset, _REFERENCES)
    return f"{path}{mark}{''.join(map(_ESCAPED.__getitem__, octets))}{hash_}{fragment}"


def _as_reference(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode characters that a charset lacks as the Standard does: as escaped references."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(each)}%3B" for each in lacking).encode("ascii"), error.end


def _as_octets(error: UnicodeError) -> tuple[str | bytes, int]:
    """Percent-encode octets that are not UTF-8."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(f"%{octet:02X}" for octet in wrong), error.end


_OCTETS = "crawlstream.octets"
codecs.register_error(_OCTETS, _as_octets)
_REFERENCES = "crawlstream.references"
codecs.register_error(_REFERENCES, _as_reference)
