"""The cookies that sites set along a chain of redirects on one host, by RFC 6265.

An entry keeps them as a mapping from name to value; a cookie that is not for the whole host has
name, semicolon and path as its key. Octets outside UTF-8 are stored as characters of a private
plane and are sent as the same octets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawling.page.http_date import moment
from crawlstream.model.credentials import may_set_for
from crawlstream.model.url import host_of

MOST_COOKIES = 50
"""Cookies of one host on one chain; no login needs more."""
_LINES_READ = 100
"""Headers of one response that are looked at."""
_LONGEST = 4096
"""Bytes of a name and its value, as browsers have it, and of the attributes that are read."""
_ALL_CHARACTERS = 8192
"""Characters of all cookies together: servers refuse longer header lines."""

_ENDS_PATH = re.compile(r"[?#]")
_BLANKS = b" \t"
_AGE = re.compile(rb"-?[0-9]{1,20}")
_SECURE = "https://"
_ESCAPED = {0xDC00 + octet: 0x10FF00 + octet for octet in range(0x80, 0x100)}
_OCTETS = {private: escaped for escaped, private in _ESCAPED.items()}
_PRIVATE = re.compile("[\U0010ff80-\U0010ffff]")


@dataclass(slots=True)
class _Attributes:
    """The cookie of a Set-Cookie header; the last valid attribute of each name counts."""

    domain: str = ""
    path: str = ""
    is_secure: bool = False
    age_s: int | None = None
    expires: float | None = None

    @property
    def is_past(self) -> bool:
        """Return whether the cookie is deleted by this."""
        if self.age_s is not None:
            return self.age_s <= 0
        return self.expires is not None and self.expires < time.time()


def text_of(octets: bytes) -> str:
    """Return octets as text that JSON can hold, and that :func:`octets_of` reverses."""
    text = octets.decode("utf-8", "surrogateescape")
    if not text.isascii() and _PRIVATE.search(text):
        text = _PRIVATE.sub(lambda one: one[0].encode().decode("ascii", "surrogateescape"), text)
    return text.translate(_ESCAPED)


def octets_of(text: str) -> bytes:
    """Return the octets that a text was made of."""
    return text.translate(_OCTETS).encode("utf-8", "surrogateescape")


def after(cookies: Mapping[str, str], url: str, lines: Sequence[bytes]) -> Mapping[str, str]:
    """Return the cookies of a chain after the response of a URL has set some (5.2, 5.3)."""
    kept = dict(cookies)
    for line in lines[:_LINES_READ]:
        pair, _, rest = line.partition(b";")
        name, has_value, value = pair.partition(b"=")
        name = name.strip(_BLANKS)
        attributes = _attributes_of(rest[:_LONGEST])
        if not has_value or not name or not _may_set(url, attributes):
            continue
        path = attributes.path or _default_path(url)
        key = text_of(name) if path == "/" else f"{text_of(name)};{path}"
        if attributes.is_past:
            kept.pop(key, None)
        elif len(pair) <= _LONGEST:
            more = {**kept, key: text_of(value.strip(_BLANKS))}
            kept = more if _has_room(more) else kept
    return kept


def sent_to(cookies: Mapping[str, str], url: str) -> list[tuple[str, str]]:
    """Return name and value of the cookies that are for a URL, longer paths first (5.4)."""
    found = [(*key.partition(";")[::2], value) for key, value in cookies.items()]
    found.sort(key=lambda cookie: -len(cookie[1]))
    return [(name, value) for name, path, value in found if not path or covers(path, url)]


def covers(path: str, url: str) -> bool:
    """Return whether a cookie of a path goes to a URL: there, or below it (5.1.4)."""
    here = _path_of(url)
    return here.startswith(path) and (len(here) == len(path) or "/" in (path[-1], here[len(path)]))


def _attributes_of(text: bytes) -> _Attributes:
    found = _Attributes()
    for each in text.split(b";"):
        name, _, value = each.partition(b"=")
        name, value = name.strip(_BLANKS).lower(), value.strip(_BLANKS)
        if name == b"domain" and value:
            found.domain = value.removeprefix(b".").decode("latin-1").lower()
        elif name == b"path":
            found.path = text_of(value) if value.startswith(b"/") else ""
        elif name == b"secure":
            found.is_secure = True
        elif name == b"max-age" and _AGE.fullmatch(value):
            found.age_s = int(value)
        elif name == b"expires" and (until := moment(value.decode("latin-1"))) is not None:
            found.expires = until
    return found


def _may_set(url: str, attributes: _Attributes) -> bool:
    """Return whether a cookie is taken from the response of a URL.

    A secure one is not without encryption, as browsers have it since RFC 6265.
    """
    if attributes.is_secure and not url.startswith(_SECURE):
        return False
    return not attributes.domain or may_set_for(attributes.domain, host_of(url))


def _path_of(url: str) -> str:
    return "/" + _ENDS_PATH.split(url, 1)[0].partition("://")[2].partition("/")[2]


def _default_path(url: str) -> str:
    """Return the path of a cookie that names none: the directory of the page (5.1.4)."""
    return _path_of(url).rpartition("/")[0] or "/"


def _has_room(cookies: Mapping[str, str]) -> bool:
    characters = sum(len(name) + len(value) for name, value in cookies.items())
    return len(cookies) <= MOST_COOKIES and characters <= _ALL_CHARACTERS
