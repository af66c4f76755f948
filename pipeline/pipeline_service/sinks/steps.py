"""Step of a partition in a store of rows: the notes that go with its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from crawlstream.boot.failpoints import failpoint
from crawlstream.plugins.sinks import Notes, Row
from crawlstream.wire import jsontext
from pipeline_service.records.account import Account, summed
from pipeline_service.records.judging import Judged
from pipeline_service.sinks.files.claims import BrokenChain
from pipeline_service.sinks.id_window import IdWindow
from pipeline_service.sinks.sink import SinkPosition

POSITION = "{}/position"
_RUN = "{}/run/{}"


class BatchStep:
    """The records of a batch, the rows that they become, and what is known once they are there."""

    def __init__(
        self,
        place: str,
        before: Account,
        judged: Sequence[Judged],
        rows: Sequence[Row],
        *,
        up_to: int,
        window: IdWindow,
        lost: int = 0,
        remembers_rows: bool = False,
    ) -> None:
        """A page that ``window`` knows is a repeat, as is one that comes twice.

        ``remembers_rows``: the window is to know pages that have rows as well as others.
        """
        self.place = place
        self.rows = rows
        self.up_to = up_to
        self.delta = Account()
        self.account = before
        self.note = ""
        """The position as it is written."""
        self._before = before
        self._judged = judged
        self._lost = lost
        self._window = window
        self._ids = {each.record.offset: each.id for each in judged}
        self._with_rows = {self._ids[row.offset] for row in rows}
        self._first: dict[str, Judged] = {}
        for each in judged:
            if each.id and each.id not in window:
                self._first.setdefault(each.id, each)
        self.remembered = [
            page_id for page_id in self._first if remembers_rows or page_id not in self._with_rows
        ]
        """Ids of the pages that the window is to know."""

    def settle(self, repeats: Collection[str]) -> Notes:
        """Count, where the store had rows of these keys before; may be called again."""
        failpoint("in_write")
        fresh = {self._ids[row.offset] for row in self.rows if row.key not in repeats}
        self.delta = Account()
        for each in self._judged:
            outcome, reason = self._outcome(each, fresh)
            counts: dict[str, Any] = {"quality": each.quality, "marks": each.marks}
            if outcome == "repeats":
                counts = {}
            at_ms = each.record.timestamp_ms
            self.delta.count(each.run, at_ms, outcome, reason, **counts)
        self.delta.total.lost = self._lost
        self.account = summed([self._before, self.delta])
        total = self.account.total.as_record()
        self.note = _text({"next": self.up_to, "total": total})
        kept = self.account.runs
        forgotten = {_RUN.format(self.place, run): None for run in self._before.runs.keys() - kept}
        runs = {
            _RUN.format(self.place, run): _text(self.account.run_record(run))
            for run in self.delta.runs
            if run in kept
        }
        ids = self._window.noted(self.remembered)
        return {**forgotten, **runs, **ids, POSITION.format(self.place): self.note}

    def _outcome(self, judged: Judged, fresh: Collection[str]) -> tuple[str, str]:
        if not judged.id:
            return judged.outcome, judged.reason
        if self._first.get(judged.id) is not judged:
            return "repeats", ""
        is_repeat = judged.id in self._with_rows and judged.id not in fresh
        return ("repeats", "") if is_repeat else (judged.outcome, judged.reason)


def standing_of(notes: Mapping[str, str], place: str) -> SinkPosition:
    """Return how far a partition is by its notes. BrokenChain: they are not what was written."""
    note = notes.get(POSITION.format(place))
    if note is None:
        return SinkPosition(None, Account())
    try:
        told = _record(note)
        begin = _RUN.format(place, "")
        runs = {
            name[len(begin) :]: _record(notes[name]) for name in notes if name.startswith(begin)
        }
        account = Account.of_record({"total": told["total"], "runs": runs})
        return SinkPosition(int(told["next"]), account)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BrokenChain(
            f"the note {place} is not what a pipeline has written; begin a new edition of it"
        ) from error


def _record(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", jsontext.loads(text.encode()))


def _text(value: object) -> str:
    return jsontext.dumps(value).decode()
