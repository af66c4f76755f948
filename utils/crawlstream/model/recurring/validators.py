"""Validators: names of a page's last version, so that its site need not send it again.

By RFC 9110 (section 13), a site answers 304 if a validator still matches its page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

CONDITIONS = frozenset({"if-match", "if-modified-since", "if-none-match", "if-unmodified-since"})
"""Headers that apply to the page of one URL, in lower case: never send them to another."""

_CODED = re.compile(r'((?:W/)?"?)([^"]+?)(?:--?gzip|;gzip|-br|-zstd)("?)')
"""ETag to which a server has appended the compression of the page."""
_DATE = re.compile(r"[A-Za-z]{3,9},? [ 0-9A-Za-z:-]{15,40}")


def conditions_of(etag: str | None, last_modified: str | None) -> Mapping[str, str]:
    """Return request headers for which a site answers 304 if the page has not changed.

    The date is only used without an ETag. An ETag is sent unchanged and, if it has a suffix for the
    compression, also without it: Apache and Jetty compare with the latter.
    """
    if etag:
        return {"If-None-Match": _with_plain(etag)}
    return {"If-Modified-Since": last_modified} if last_modified else {}


def is_http_date(text: str) -> bool:
    """Return whether a text is an HTTP date, in any of its three forms."""
    if not _DATE.fullmatch(text):
        return False
    try:
        parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _with_plain(etag: str) -> str:
    coded = _CODED.fullmatch(etag)
    return f"{etag}, {coded[1]}{coded[2]}{coded[3]}" if coded else etag
