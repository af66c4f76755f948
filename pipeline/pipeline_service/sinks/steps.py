"""One step of a partition in a store of rows: which notes go with which rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from crawlstream.boot.failpoints import failpoint
from crawlstream.plugins.sinks import Notes, Row
from crawlstream.wire import jsontext
from pipeline_service.account import Account, summed
from pipeline_service.claims import BrokenChain
from pipeline_service.judging import Judged
from pipeline_service.sinks.door import Standing
from pipeline_service.sinks.window import Window

POSITION = "{}/position"
_RUN = "{}/run/{}"


class Step:
    """The records of a batch, the rows that they become, and what is known once they are there."""

    def __init__(
        self,
        place: str,
        before: Account,
        judged: Sequence[Judged],
        rows: Sequence[Row],
        *,
        up_to: int,
        lost: int = 0,
        window: Window | None = None,
    ) -> None:
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

    def settle(self, repeats: Collection[str]) -> Notes:
        """Count, where the store had rows of these keys before; may be called again."""
        failpoint("in_write")
        fresh = {row.offset for row in self.rows if row.key not in repeats}
        self.delta = Account()
        for each in self._judged:
            self.delta.count(each.run, each.record.timestamp_ms, *_outcome(each, fresh))
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
        keys = self._window.noted(self.rows) if self._window else {}
        return {**forgotten, **runs, **keys, POSITION.format(self.place): self.note}


def _outcome(judged: Judged, fresh: Collection[int]) -> tuple[str, str]:
    if judged.reason:
        return "undelivered", judged.reason
    if judged.filtered:
        return "filtered", judged.filtered
    return ("delivered" if judged.record.offset in fresh else "repeats"), ""


def standing_of(notes: Mapping[str, str], place: str) -> Standing:
    """How far a partition is by its notes. BrokenChain: they are not what was written."""
    note = notes.get(POSITION.format(place))
    if note is None:
        return Standing(None, Account())
    try:
        told = _record(note)
        begin = _RUN.format(place, "")
        runs = {
            name[len(begin) :]: _record(notes[name]) for name in notes if name.startswith(begin)
        }
        account = Account.of_record({"total": told["total"], "runs": runs})
        return Standing(int(told["next"]), account)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BrokenChain(
            f"the note {place} is not what a pipeline has written; begin a new edition of it"
        ) from error


def _record(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", jsontext.loads(text.encode()))


def _text(value: object) -> str:
    return jsontext.dumps(value).decode()
