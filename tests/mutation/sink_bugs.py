"""Bugs on purpose in the sinks of pipelines: positions, repeats, refusals, gaps, and the disk below."""

# ruff: noqa: E501  what is planted is quoted as it stands

from __future__ import annotations

from mutation.bug import Bug

SINK_BUGS = {
    "a writer that comes too late writes all the same": Bug(
        module="pipeline_service.sinks.sql.notes",
        right="        return [tuple(row) for row in found] == [(expected,)]\n",
        wrong="        return expected is not None or [tuple(row) for row in found] == [(expected,)]\n",
        test="contract/test_stores.py::TestSqlite and who_is_late",
    ),
    "rows are written wherever the batch begins": Bug(
        module="pipeline_service.sinks.rows",
        right="            if batch.start != part.next:\n",
        wrong="            if batch.start < part.next:\n",
        test="contract/test_sinks.py::batch_of_elsewhere and sqlite",
    ),
    "what neither of two has written counts as written": Bug(
        module="pipeline_service.sinks.rows",
        right="            return None if is_ours else self._elsewhere(part, 0 if known else batch.start)\n",
        wrong="            return None if is_ours else part.next\n",
        test="contract/test_sinks.py::came_to_nothing and kafka",
    ),
    "a page whose row is there already is delivered again": Bug(
        module="pipeline_service.sinks.steps",
        right="        is_repeat = judged.id in self._with_rows and judged.id not in fresh\n",
        wrong="        is_repeat = False\n",
        test="contract/test_sinks.py::comes_back_is_read_on and sqlite",
    ),
    "a page that is not wanted is not remembered": Bug(
        module="pipeline_service.sinks.steps",
        right="            page_id for page_id in self._first if remembers_rows or page_id not in self._with_rows\n",
        wrong="            page_id for page_id in self._first if remembers_rows\n",
        test="contract/test_sinks.py::not_wanted_is_counted_once and sqlite",
    ),
    "one row that is refused takes its half along": Bug(
        module="pipeline_service.sinks.rows",
        right="        return {**self._tried(change, rows[:half]), **self._tried(change, rows[half:])}\n",
        wrong="        return {row.offset: str(refused) for row in rows[half:]}\n",
        test="contract/test_tables.py::refused_is_named and sqlite",
    ),
    "the position is written before the rows": Bug(
        module="pipeline_service.sinks.idempotent",
        right=(
            "        self._put(change.rows)\n"
            '        failpoint("after_rows")\n'
            "        step = jsontext.dumps(notes).decode()\n"
            "        if not self._store.swap(name, before, step):\n"
            "            return False\n"
        ),
        wrong=(
            "        step = jsontext.dumps(notes).decode()\n"
            "        if not self._store.swap(name, before, step):\n"
            "            return False\n"
            '        failpoint("after_rows")\n'
            "        self._put(change.rows)\n"
        ),
        test="contract/test_stores.py::TestKeyed and overtaken",
    ),
    "the notes of a batch go with the position of the next one": Bug(
        module="pipeline_service.sinks.idempotent",
        right="        if not all(self._swap(_NOTE + note, text) for note, text in last.items()):\n",
        wrong="        if not all(self._texts for note, text in last.items()):\n",
        test="contract/test_stores.py::TestKeyed and kept_replaced",
    ),
    "a writer that comes too late overwrites the position": Bug(
        module="pipeline_service.sinks.idempotent",
        right="        if not self._store.swap(name, before, step):\n            return False\n",
        wrong="        self._store.swap(name, self._current(name), step)\n",
        test="contract/test_stores.py::TestKeyed and overtaken",
    ),
    "a table that is gone is made anew, behind what it had": Bug(
        module="pipeline_service.sinks.sql.table",
        right="            if has_begun:\n",
        wrong="            if has_begun and self._migrate:\n",
        test="contract/test_tables.py::gone_is_not_made_anew and sqlite",
    ),
    "what Kafka has deleted is passed over in silence": Bug(
        module="pipeline_service.sinks.files.segments",
        right="        self.account.total.lost += max(offset - self.next, 0)\n",
        wrong="",
        test="contract/test_sinks.py::kafka_has_deleted and file",
    ),
    "a spool whose disk is full is filled again and again": Bug(
        module="pipeline_service.sinks.files.segments",
        right='        return "spool" if self._files and self._spool.is_short else ""\n',
        wrong='        return ""\n',
        test="contract/test_files.py::nearly_full",
    ),
    "a disk that is no longer mounted is an empty store": Bug(
        module="crawlstream.store.store",
        right="        if not path.is_file() or path.read_bytes() != self._mark:\n",
        wrong="        if path.is_file() and path.read_bytes() != self._mark:\n",
        test="unit/store/test_store.py::pinned_folder",
    ),
}
