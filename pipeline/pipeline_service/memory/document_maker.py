"""Documents of a search index out of what was judged: one per URL, by the key of a memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from crawlstream.model.delivered import Delivered
from crawlstream.plugins.sinks import Row
from pipeline_service.memory.seen import Seen, Sight, seen_in, sight_of
from pipeline_service.records.judging import Judged, Wanted
from pipeline_service.sinks.row_maker import RowMaker
from pipeline_service.sinks.search.search_store import DOCUMENT, DocumentPlace


class DocumentMaker:
    """Makes a row of the document of each page, and of those of the URLs that redirected to it."""

    def __init__(self, maker: RowMaker, is_banned: Callable[[Delivered], bool]) -> None:
        """``maker`` makes the fields. ``is_banned``: pages that count as gone."""
        self._maker = maker
        self._is_banned = is_banned

    def rows(
        self, judged: Sequence[Judged], is_known: Callable[[str], bool] = lambda _: False
    ) -> Sequence[Row]:
        """Return rows of pages whose ids are not known; no two rows have one key."""
        chosen: dict[str, Wanted] = {}
        for each in judged:
            if isinstance(each, Wanted) and not is_known(each.id):
                chosen.setdefault(each.id, each)
        now = time.time()
        return [row for each in chosen.values() for row in self._rows(each, now)]

    def _rows(self, judged: Wanted, now: float) -> Iterator[Row]:
        page = judged.page
        is_there = sight_of(page.status_code) is Sight.THERE and not self._is_banned(page)
        sight = Sight.THERE if is_there else Sight.GONE
        documents: dict[str, Seen] = {}
        for seen in seen_in(page, sight, None, now):
            documents.setdefault(seen.key, seen)
        for number, seen in enumerate(documents.values()):
            place = DocumentPlace(seen.key, _version(seen), is_gone=seen.sight is not Sight.THERE)
            if place.is_gone:
                key = f"{judged.id}:{number}" if number else judged.id
                yield Row(key, judged.record.offset, {DOCUMENT: place})
                continue
            for row in self._maker.rows([judged]):
                yield replace(row, fields={**row.fields, DOCUMENT: place})


def _version(seen: Seen) -> int:
    return max(round(seen.at * 1_000_000), 0)
