"""Validators: what is known of a page's last state, so that its site need not send it again.

As RFC 9110 (section 13) has it: a site whose page is still the one that a validator names answers
304.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

CONDITIONS = frozenset({"if-match", "if-modified-since", "if-none-match", "if-unmodified-since"})
"""Headers that mean one URL's page, in lower case: they are not for another one."""

_CODED = re.compile(r'((?:W/)?"?)([^"]+?)(?:--?gzip|;gzip|-br|-zstd)("?)')
"""An ETag to whose end a server has added how it compressed the page."""
_DATE = re.compile(r"[A-Za-z]{3,9},? [ 0-9A-Za-z:-]{15,40}")


def conditions_of(etag: str | None, last_modified: str | None) -> Mapping[str, str]:
    """The headers of a request that is to be answered 304 if the page is still that one.

    The date is for pages without an ETag only. An ETag is asked for as it is and, where it says how
    the page was compressed, without that: Apache and Jetty compare with the latter.
    """
    if etag:
        return {"If-None-Match": _with_plain(etag)}
    return {"If-Modified-Since": last_modified} if last_modified else {}


def is_http_date(text: str) -> bool:
    """Whether a text is a date as HTTP has it, in any of its three forms."""
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
