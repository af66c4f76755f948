"""Rows out of what was judged: a page is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crawlstream.formats.columns import COLUMNS, Column
from crawlstream.model.delivered import Delivered
from crawlstream.plugins.sinks import Row
from crawlstream.store.bodies import BodyStore
from pipeline_service.judging import Judged

BODY = "body"


def columns_of_pages(*, with_body: bool) -> Sequence[Column]:
    """Of a page's row."""
    return [column for column in COLUMNS if with_body or column.name != BODY]


class RowMaker:
    """Makes rows with certain columns; calls take CPU time, and those of a body store block."""

    def __init__(
        self, columns: Sequence[Column], *, bodies: BodyStore | None = None, replaces: bool = False
    ) -> None:
        """Make rows of ``columns``: none for a store that takes the rows as JSON.

        ``bodies``: where bodies are kept. ``replaces``: of a page that comes twice the last counts.
        """
        self.columns = columns
        self._bodies = bodies
        self._replaces = replaces

    def rows(
        self, judged: Sequence[Judged], is_known: Callable[[str], bool] = lambda _: False
    ) -> Sequence[Row]:
        """Of the pages whose ids are not known; no two rows have one key. StoreUnavailable."""
        chosen: dict[str, Judged] = {}
        for each in judged:
            if not each.id or is_known(each.id):
                continue
            if self._replaces and each.page is not None:
                chosen.pop(each.id, None)
            chosen.setdefault(each.id, each)
        return [self._row(each, each.page) for each in chosen.values() if each.page is not None]

    def _row(self, judged: Judged, page: Delivered) -> Row:
        fields = {column.name: column.take(page) for column in self.columns}
        if self._bodies is not None and page.body_ref is None:
            fields["body_ref"] = self._kept(page, self._bodies)
        return Row(page.id, judged.record.offset, fields, judged.value)

    def _kept(self, page: Delivered, bodies: BodyStore) -> str | None:
        """The URL of a whole body; None for one that is cut, or empty."""
        return None if page.body_truncated or not page.body else bodies.put(page.body)
