"""Payloads of responses in WARC files, and the records that hold each.

A payload that an earlier record holds is not stored again: the record of its page is a ``revisit``,
which names the earlier one by URL and date.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple

from crawlstream.model.delivered import Delivered
from crawlstream.model.result import digest_of
from pipeline_service.formats.warc_heads import clean_url

SAVED, REVISITS = "bytes_saved", "revisits"
_LEAST_BYTES = 512
"""A shorter payload is stored again: a reference to it takes as much space."""
_KEY_BYTES = 20


class PayloadRecord(NamedTuple):
    """Response record that holds a payload, as a revisit refers to it."""

    url: str
    date: str
    """``WARC-Date``."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that a WARC file holds of a response."""

    body: bytes
    is_as_sent: bool
    """Coded as the site has sent it; False: after content decoding."""
    truncated: str
    """Value of ``WARC-Truncated``; empty: it is whole."""

    @property
    def can_be_shared(self) -> bool:
        """Return whether a revisit may stand for it, or refer to it."""
        return not self.truncated and len(self.body) >= _LEAST_BYTES


def payload_of(page: Delivered) -> Payload:
    """Return the payload that an archive holds of a page."""
    sent = page.as_sent
    is_as_sent = sent is not None and (sent.body is not None or not page.body_truncated)
    body = sent.body if sent is not None and sent.body is not None else page.body
    if page.body_truncated and not is_as_sent:
        return Payload(body, is_as_sent, "length")
    # The connection did not break: the body is incomplete as the site sent it.
    return Payload(body, is_as_sent, "unspecified" if page.is_incomplete else "")


def warc_date(page: Delivered) -> str:
    """Return the date of a page's records."""
    return page.timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class KnownPayloads:
    """Payloads that the writer of a file need not store again, for pages in their order."""

    is_by_run: bool = False
    """Only records of the page's own run count."""
    referred: dict[str, PayloadRecord] = field(default_factory=dict)
    """Records of earlier files that are referred to, by the id of the page that does."""
    stored: dict[bytes, PayloadRecord] = field(default_factory=dict)
    """Records that were written here, by their keys."""
    is_decided: bool = False
    """``referred`` is complete: another writer has decided, and nothing is looked up."""
    _earlier: Mapping[bytes, PayloadRecord] = field(default_factory=dict)
    _digests: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def expect(self, pages: Sequence[Delivered]) -> Sequence[bytes]:
        """Note the next pages to be written; return the keys to look up in earlier files."""
        self._digests = {}
        keys: dict[bytes, None] = {}
        for page in pages:
            payload = payload_of(page)
            if _has_payload(page) and payload.can_be_shared:
                digest = digest_of(payload.body)
                self._digests[page.id] = payload.body, digest
                keys[self._key(page, digest)] = None
        return [] if self.is_decided else [key for key in keys if key not in self.stored]

    def found(self, earlier: Mapping[bytes, PayloadRecord]) -> None:
        """Note the records of earlier files that hold expected payloads."""
        self._earlier = earlier

    def digest(self, page: Delivered, payload: Payload) -> str:
        """Return the digest of a page's payload."""
        body, digest = self._digests.get(page.id, (None, ""))
        return digest if body is payload.body else digest_of(payload.body)

    def holder(self, page: Delivered, payload: Payload, digest: str) -> PayloadRecord | None:
        """Return the record that holds a payload; None: it is to be stored, and is known then."""
        if not payload.can_be_shared:
            return None
        key = self._key(page, digest)
        if (holder := self.stored.get(key)) is None:
            holder = self.referred.get(page.id) if self.is_decided else self._earlier.get(key)
            if holder is None:
                self.stored[key] = PayloadRecord(clean_url(page.response_url), warc_date(page))
                return None
            self.referred[page.id] = holder
        self._counts.update({REVISITS: 1, SAVED: len(payload.body)})
        return holder

    def take_counts(self) -> Mapping[str, int]:
        """Return the revisits, and the bytes that they save, since the last call."""
        counts, self._counts = self._counts, Counter()
        return counts

    def _key(self, page: Delivered, digest: str) -> bytes:
        run = (page.appid, page.crawlid, page.spiderid, str(page.run)) if self.is_by_run else ()
        text = "\t".join((digest, *run))
        return hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()


def _has_payload(page: Delivered) -> bool:
    return page.dropped is None and page.status_code != HTTPStatus.NOT_MODIFIED
