"""Rows for a memory out of what was judged: a row for each page that a record says something of."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crawlstream.model.delivered import Delivered
from crawlstream.plugins.sinks import Row
from crawlstream.wire import jsontext
from pipeline_service.memory.kept_text import KeptText, text_of
from pipeline_service.memory.learning import PLACE, SEEN
from pipeline_service.memory.page_changes import ResultPlace
from pipeline_service.memory.seen import (
    Seen,
    Sight,
    announced_in,
    listed_in,
    seen_failed,
    seen_in,
    sight_of,
)
from pipeline_service.memory.sql.effect import LISTED
from pipeline_service.records.judging import AnnouncedPages, FailedPage, Judged, Wanted
from pipeline_service.records.rows import ERRORS
from pipeline_service.spec.changes import TEXT_STAGES
from pipeline_service.spec.memory import BY_BODY, BY_ITEMS, BY_TEXT

_FIELD_OF_TEXT = "signature"
"""Which the stage of that name makes."""
_LONGEST = 100
"""Characters of a field that is kept as it is."""


class SeenMaker:
    """Makes rows of results, or of the events of pages that have failed."""

    def __init__(
        self,
        signature: str,
        *,
        keep: bool = False,
        compares: bool = False,
        is_banned: Callable[[Delivered], bool] = lambda _: False,
    ) -> None:
        """``signature`` and ``keep`` as in `PagesSink`.

        ``compares``: the text of a page is wanted. ``is_banned``: pages that count as gone.
        """
        self._signature = signature
        self._keep = keep
        self._compares = compares
        self._is_banned = is_banned
        self._field = _FIELD_OF_TEXT if signature == BY_TEXT else signature

    def rows(
        self, judged: Sequence[Judged], is_known: Callable[[str], bool] = lambda _: False
    ) -> Sequence[Row]:
        """Return rows of the records whose ids are not known; no two rows have one key."""
        chosen: dict[str, Judged] = {}
        for each in judged:
            if each.id and not is_known(each.id):
                chosen.setdefault(each.id, each)
        now = time.time()
        return [row for each in chosen.values() for row in self._rows(each, now)]

    def _rows(self, judged: Judged, now: float) -> Iterator[Row]:
        record = judged.record
        place = ResultPlace(record.topic, record.partition, record.offset)
        for number, seen in enumerate(self._seen(judged, now)):
            key = judged.id if number == 0 else f"{judged.id}:{number}"
            yield Row(key, record.offset, {SEEN: seen, PLACE: place})
        if isinstance(judged, Wanted) and judged.page.lastmods:
            listed = list(listed_in(judged.page, now))
            yield Row(f"{judged.id}:listed", record.offset, {LISTED: listed})
        if isinstance(judged, AnnouncedPages):
            announced = list(announced_in(judged.appid, judged.urls, min(judged.at, now)))
            yield Row(judged.id, record.offset, {LISTED: announced})

    def _seen(self, judged: Judged, now: float) -> Iterator[Seen]:
        if isinstance(judged, FailedPage):
            yield from seen_failed(judged.event, min(judged.record.timestamp_ms / 1000, now))
        elif isinstance(judged, Wanted):
            page, sight, signature = judged.page, *self._found_in(judged)
            items = self._items_of(judged) if self._keep else None
            text = _text_in(judged) if self._compares else None
            yield from seen_in(page, sight, signature, now, items=items, text=text)

    def _found_in(self, judged: Wanted) -> tuple[Sight, str]:
        return self._sight_of(judged.page), self._signature_of(judged)

    def _sight_of(self, page: Delivered) -> Sight:
        sight = sight_of(page.status_code)
        is_there = sight in (Sight.THERE, Sight.UNMODIFIED)
        return Sight.GONE if is_there and self._is_banned(page) else sight

    def _items_of(self, judged: Wanted) -> list[dict[str, Any]]:
        """Fields of each row, without the signature that is compared anyway."""
        own = _FIELD_OF_TEXT if self._signature == BY_TEXT else None
        kept = []
        for row in judged.rows or ():
            item = {name: value for name, value in row.fields.items() if name != own}
            kept.append({**item, ERRORS: list(row.errors)} if row.errors else item)
        return kept

    def _signature_of(self, judged: Wanted) -> str:
        """Empty where there is nothing that could change; of a page without text its body's."""
        page = judged.page
        if self._signature == BY_BODY:
            return _of_body(page)
        rows = judged.rows or ()
        if self._signature == BY_ITEMS:
            return _hash(jsontext.dumps([row.fields for row in rows])) if rows else ""
        found = [row.fields.get(self._field) for row in rows]
        if not any(each is not None for each in found):
            return _of_body(page) if self._signature == BY_TEXT and page.body else ""
        if len(found) == 1 and isinstance(found[0], str) and len(found[0]) <= _LONGEST:
            return found[0]
        return _hash(jsontext.dumps(found))


def _text_in(judged: Wanted) -> KeptText | None:
    """Return the text that a stage has made of a page; None where it has found none."""
    for name in TEXT_STAGES:
        for row in judged.rows or ():
            if isinstance(found := row.fields.get(name), str):
                return text_of(found)
    return None


def _of_body(page: Delivered) -> str:
    return page.digest or _hash(page.body)


def _hash(value: bytes) -> str:
    return f"blake2b:{hashlib.blake2b(value, digest_size=16).hexdigest()}"
