"""Guarantees of every store of rows, as tests for the author of one.

    class TestShelf(StoreContract):
        def make(self, spec): return Shelf(spec)
        def keys(self, spec): return [...]

pytest runs the inherited tests. Each test has a pipeline and rows of its own, so that nothing needs
to be cleared between them. One of them kills a process in the midst of a write: the class must be
at the top of its module, and keep nothing of its own that cannot be pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any
from uuid import uuid4

from crawlstream.plugins.sinks import Change, IdempotentStore, Notes, Row, RowStore, SinkSpec
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import COLUMNS
from pipeline_service.sinks.idempotent import row_store

__all__ = ["IdempotentContract", "StoreContract"]

POSITION = "t-00000/position"
_DIES_S = 240
_WRITERS, _TURNS = 4, 20
_HOSTILE = ("", "a\x00b", "\U0001f577 ' \" \\ \ud7ff", "x" * 1_000_000)


class StoreContract:
    """Tests of a store; a subclass says how one is made, and what is in it."""

    options: Mapping[str, Any] = {}
    """The store's, in the file of the pipelines."""

    def make(self, spec: SinkSpec) -> RowStore | IdempotentStore:
        """A store of this pipeline's rows, as another process would make it."""
        raise NotImplementedError

    def keys(self, spec: SinkSpec) -> Sequence[str]:
        """The keys of all rows of this pipeline, as a reader finds them."""
        raise NotImplementedError

    def spec(self) -> SinkSpec:
        """Return the description of a pipeline with a unique name."""
        columns = {column.name: column.kind.value for column in COLUMNS}
        name = f"t{uuid4().hex[:20]}"
        return SinkSpec(pipeline=name, edition=1, options=self.options, columns=columns)

    def test_rows_and_notes_are_written_together(self) -> None:
        """Rows and notes are there for the next process that opens the store."""
        spec = self.spec()
        with self._opened(spec) as store:
            assert store.read("") == {}
            assert write(store, None, "1", rows_of(spec, 3), more={"t-00000/run/a\tb": "2"})
        with self._opened(spec) as store:
            assert store.read("t-00000/") == {POSITION: "1", "t-00000/run/a\tb": "2"}
            assert store.read("t-00001/") == {}
        assert Counter(self.keys(spec)) == Counter(row.key for row in rows_of(spec, 3))

    def test_who_is_late_writes_nothing(self) -> None:
        """Another one has moved the position: rows and notes of the late one are refused."""
        spec = self.spec()
        first, second, third = rows_of(spec, 3)
        with self._opened(spec) as late, self._opened(spec) as other:
            late.take_over(POSITION)
            assert late.read("").get(POSITION) is None
            other.take_over(POSITION)
            assert write(other, other.read("").get(POSITION), "1", [first])
            assert not write(late, None, "9", [second], more={"t-00000/run/x": "9"})
            late.take_over(POSITION)
            assert late.read("") == {POSITION: "1"}
            assert write(late, "1", "2", [third])
            assert not write(other, "1", "9", [second])
        assert Counter(self.keys(spec)) == Counter([first.key, third.key])

    def test_what_fails_before_it_is_settled_leaves_nothing(self) -> None:
        """The pipeline tries rows so, to learn which of them are refused."""
        spec = self.spec()
        with self._opened(spec) as store:
            with suppress(_Undone):
                store.write(Change(POSITION, None, rows_of(spec, 2), _undo))
            assert store.read("") == {}
            assert self.keys(spec) == []
            assert write(store, None, "1", rows_of(spec, 2))
        assert Counter(self.keys(spec)) == Counter(row.key for row in rows_of(spec, 2))

    def test_a_row_that_comes_again_is_there_once(self) -> None:
        """A store that knows its keys reports repeated ones before they are settled."""
        spec = self.spec()
        rows, told = rows_of(spec, 3), list[Collection[str]]()

        def settle(repeats: Collection[str]) -> Notes:
            told.append(repeats)
            return {POSITION: "2"}

        with self._opened(spec) as store:
            assert write(store, None, "1", rows[:2])
            if store.knows_keys:
                assert store.write(Change(POSITION, "1", rows[1:], settle))
                assert set(told[-1]) == {rows[1].key}
                assert Counter(self.keys(spec)) == Counter(row.key for row in rows)

    def test_notes_are_kept_replaced_and_removed(self) -> None:
        """Whatever their names and texts are made of, and without rows as well."""
        spec = self.spec()
        hostile = {f"runs/{n}\t%_'\"\u00e9": text for n, text in enumerate(_HOSTILE[2:])}
        with self._opened(spec) as store:
            store.keep({**hostile, "runs": "beside"})
            assert store.read("runs/") == hostile
            assert write(store, None, "1", [], more={"a": "1", "b": "1"})
            assert write(store, "1", "2", [], more={"a": None, "b": "2"})
            assert store.read("") == {**hostile, "runs": "beside", "b": "2", POSITION: "2"}
            assert write(store, "2", "3", [])
            assert store.read("") == {**hostile, "runs": "beside", "b": "2", POSITION: "3"}

    def test_another_edition_has_notes_of_its_own(self) -> None:
        """And so has a pipeline of another name."""
        spec, other = self.spec(), self.spec()
        again = SinkSpec(
            pipeline=spec.pipeline, edition=2, options=spec.options, columns=spec.columns
        )
        with self._opened(spec) as store:
            assert write(store, None, "1", [])
        for each in (again, other):
            with self._opened(each) as store:
                assert store.read("") == {}

    def test_hostile_rows_are_written(self) -> None:
        """Empty, with NUL, and large; unless the store refuses them, and says so."""
        spec = self.spec()
        rows = [row(spec, n, text) for n, text in enumerate(_HOSTILE)]
        with self._opened(spec) as store:
            assert write(store, None, "1", rows)
        assert Counter(self.keys(spec)) == Counter(each.key for each in rows)

    def test_a_process_that_dies_in_the_midst_leaves_nothing(self) -> None:
        """The next one finds the position as it was, and each row is there once."""
        spec = self.spec()
        self._killed(_die, spec)
        with self._opened(spec) as store:
            store.take_over(POSITION)
            assert store.read("").get(POSITION) is None
            assert write(store, None, "1", rows_of(spec, 3))
        assert Counter(self.keys(spec)) == Counter(row.key for row in rows_of(spec, 3))

    def test_a_store_is_opened_again(self) -> None:
        """After an error, and after it was closed; a check comes before, and leaves nothing."""
        spec = self.spec()
        with closing(row_store(self.make(spec))) as store:
            store.prove()
        with closing(row_store(self.make(spec))) as store:
            store.open()
            assert write(store, None, "1", rows_of(spec, 1))
            store.open()
            assert write(store, store.read("")[POSITION], "2", [])
            store.close()
            store.open()
            assert store.read("") == {POSITION: "2"}

    def _killed(self, dies: Callable[[Any, SinkSpec], None], spec: SinkSpec) -> None:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=dies, args=(self, spec))
        process.start()
        process.join(_DIES_S)
        assert process.exitcode == -signal.SIGKILL

    @contextmanager
    def _opened(self, spec: SinkSpec) -> Any:
        with closing(row_store(self.make(spec))) as store:
            store.open()
            yield store


class IdempotentContract(StoreContract):
    """Tests of a store without transactions, besides those of every store."""

    def make(self, spec: SinkSpec) -> IdempotentStore:
        """A store of this pipeline's rows, as another process would make it."""
        raise NotImplementedError

    def test_a_row_that_is_written_again_replaces_itself(self) -> None:
        """In the same call, and in another process."""
        spec = self.spec()
        first, second = rows_of(spec, 2)
        for rows in ([first], [first, second]):
            with closing(self.make(spec)) as store:
                store.open()
                store.put(rows)
        assert Counter(self.keys(spec)) == Counter([first.key, second.key])

    def test_one_of_all_that_expect_a_text_replaces_it(self) -> None:
        """A text that is there is not created, and one that is not is not replaced."""
        spec = self.spec()
        with ExitStack() as stack, ThreadPoolExecutor(_WRITERS) as pool:
            stores = [stack.enter_context(closing(self.make(spec))) for _ in range(_WRITERS)]
            for store in stores:
                store.open()
            known: str | None = None
            for turn in range(_TURNS):
                texts = [f"{turn} {n}" for n in range(_WRITERS)]
                won = list(pool.map(lambda store, t, k=known: store.swap("a", k, t), stores, texts))
                assert sum(won) == 1
                known = texts[won.index(True)]
                assert stores[turn % _WRITERS].read("") == {"a": known}
            assert not stores[0].swap("a", None, "other")
            assert not stores[0].swap("b", "other", "text")
            assert stores[0].swap("a", known, None)
            assert stores[1].read("") == {}

    def test_rows_whose_note_was_not_written_are_written_again(self) -> None:
        """A process dies between both: its rows are there, and the position is not."""
        spec = self.spec()
        self._killed(_die_after_rows, spec)
        assert Counter(self.keys(spec)) == Counter(row.key for row in rows_of(spec, 3))
        with self._opened(spec) as store:
            assert store.read("") == {}
            assert write(store, None, "1", rows_of(spec, 3))
        assert Counter(self.keys(spec)) == Counter(row.key for row in rows_of(spec, 3))


def row(spec: SinkSpec, number: int, text: str) -> Row:
    """A row, as a pipeline makes it of a page."""
    key = f"{spec.pipeline}:{number}"
    fields: dict[str, object] = dict.fromkeys(spec.columns)
    fields |= {"id": key, "url": f"http://127.0.0.7/{number}", "run": number, "seed_url": text}
    told = {name: value for name, value in fields.items() if value is not None}
    return Row(key, number, fields, jsontext.dumps(told))


def rows_of(spec: SinkSpec, count: int) -> Sequence[Row]:
    """Return ``count`` rows."""
    return [row(spec, number, str(number)) for number in range(count)]


def write(
    store: RowStore,
    expected: str | None,
    position: str,
    rows: Sequence[Row],
    *,
    more: Notes | None = None,
) -> bool:
    """Write rows, and move the position."""

    def settle(_: Collection[str]) -> Notes:
        return {POSITION: position, **(more or {})}

    return store.write(Change(POSITION, expected, rows, settle))


def _die(contract: StoreContract, spec: SinkSpec) -> None:
    def settle(_: Collection[str]) -> Notes:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    store = row_store(contract.make(spec))
    store.open()
    store.take_over(POSITION)
    store.write(Change(POSITION, None, rows_of(spec, 3), settle))


def _die_after_rows(contract: IdempotentContract, spec: SinkSpec) -> None:
    store = contract.make(spec)
    store.open()
    store.put(rows_of(spec, 3))
    os.kill(os.getpid(), signal.SIGKILL)


class _Undone(Exception):
    """Abort a write: nothing of it must be kept."""


def _undo(_: object) -> Notes:
    raise _Undone
