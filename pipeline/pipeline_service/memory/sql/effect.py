"""The effect of rows on a memory: what records say of pages, learnt in the position's transaction.

A page's row is locked before it is read, so records of one page from several partitions are learnt
one after the other. What is older than what is known changes nothing: it is a repeat.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from operator import itemgetter
from typing import Any, cast

from crawlstream.plugins.sinks import Row
from pipeline_service.formats.columns import ColumnType
from pipeline_service.memory.known_page import KnownPage
from pipeline_service.memory.learning import learn_all, said_by
from pipeline_service.memory.seen import Listed, Seen
from pipeline_service.memory.sql.change_outbox import ChangeOutbox
from pipeline_service.memory.sql.lastmod_trust import PROBES, LastmodTrust
from pipeline_service.metrics import note_learnt
from pipeline_service.sinks.sql.database import (
    Database,
    Transaction,
    Tuple,
    as_time,
    batches,
    index_of,
    quoted,
    seconds_of,
)
from pipeline_service.sinks.sql.notes import Notebook
from pipeline_service.sinks.sql.table import TableEffect
from pipeline_service.spec.memory import PagesSink, Visits
from pipeline_service.spec.rule import Experience, IntervalRule

LISTED = "listed"
"""The field of a row that has what a sitemap says of pages."""
STATE = "visits"
"""The note of what visits have come to."""
BASE = "base_s"
KINDS: Mapping[str, ColumnType] = {
    "id": ColumnType.TEXT,
    "appid": ColumnType.TEXT,
    "url": ColumnType.TEXT,
    "domain": ColumnType.TEXT,
    "spiderid": ColumnType.TEXT,
    "status": ColumnType.WHOLE,
    "signature": ColumnType.TEXT,
    "etag": ColumnType.TEXT,
    "last_modified": ColumnType.TEXT,
    "first_seen": ColumnType.TIME,
    "last_seen": ColumnType.TIME,
    "last_heard": ColumnType.TIME,
    "last_changed": ColumnType.TIME,
    "visits": ColumnType.WHOLE,
    "changes": ColumnType.WHOLE,
    "late_visits": ColumnType.NUMBER,
    "late_changes": ColumnType.NUMBER,
    "late_span_s": ColumnType.NUMBER,
    "fails": ColumnType.WHOLE,
    "gone": ColumnType.WHOLE,
    "is_liar": ColumnType.FLAG,
    "pace": ColumnType.WHOLE,
    "least_s": ColumnType.NUMBER,
    "most_s": ColumnType.NUMBER,
    "interval_s": ColumnType.NUMBER,
    "next_visit": ColumnType.TIME,
    "claimed_until": ColumnType.TIME,
    "asked": ColumnType.WHOLE,
    "last_id": ColumnType.TEXT,
}
"""The columns of a memory."""
KEPT: Mapping[str, ColumnType] = {"items": ColumnType.JSON, "items_before": ColumnType.JSON}
"""Further columns of a memory that keeps items."""
_TIMES = frozenset(name for name, kind in KINDS.items() if kind is ColumnType.TIME)
_LATE = {"late_visits": "visits", "late_changes": "changes", "late_span_s": "span_s"}
_PLAIN = [each.name for each in fields(KnownPage) if each.name not in ("key", "experience")]


class MemoryEffect:
    """Learns what rows say, each in its field SEEN."""

    def __init__(
        self,
        pipeline: str,
        sink: PagesSink,
        visits: Visits,
        notes: Notebook,
        *,
        outbox: ChangeOutbox | None = None,
    ) -> None:
        """``notes`` are those of the memory, with what visits have come to.

        ``outbox``: where changes wait for publication; None: they are not published.
        """
        self._pipeline = pipeline
        self._outbox = outbox
        kinds = kinds_of(sink)
        self._columns = tuple(kinds)
        self._table = TableEffect(sink.table, kinds, replace=True, migrate=sink.migrate)
        self._name = sink.table
        self._visits = visits
        self._notes = notes
        self._trust = LastmodTrust(notes)
        self._rule = visits.rule(None)
        self._rule_until = 0.0
        self._heard: Counter[str] = Counter()

    def prepare(
        self, database: Database, transaction: Transaction, *, has_begun: bool, is_later: bool
    ) -> None:
        """Have a table that fits, and its indexes. ConfigError."""
        is_new = not transaction.columns(self._name)
        self._table.prepare(database, transaction, has_begun=has_begun, is_later=is_later)
        if self._outbox is not None:
            self._outbox.prepare(database, transaction)
        # Creating an index that exists would wait for all writers, and block others.
        for column in ("next_visit", "claimed_until") if is_new else ():
            transaction.execute(
                f"create index {index_of(self._name, column)}"
                f" on {quoted(self._name)} ({column}) where {column} is not null"
            )
        self._rule_until = 0.0

    def foresee(self, database: Database, rows: Sequence[Row]) -> None:
        """Compare the texts of pages that change, as far as can be seen before the transaction."""
        outbox, said = self._outbox, said_by(rows)
        if outbox is None or outbox.texts is None or not any(seen.text for _, seen in said):
            return
        with database.transaction() as transaction:
            rule, keys = self._current_rule(transaction), {seen.key for _, seen in said}
            known = {page.key: page for page in self._selected(transaction, keys, lock="")}
            steps = outbox.wanted(learn_all(said, known, rule).steps)
            pairs = outbox.texts.pairs(transaction, steps)
        outbox.texts.compare(pairs)

    def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """Learn nothing yet: other transactions may."""

    def apply(self, transaction: Transaction, rows: Sequence[Row]) -> Collection[str]:
        """Learn what rows say; answers the keys of those that say nothing new."""
        self._heard = Counter()
        if not rows:
            return ()
        rule, said = self._current_rule(transaction), said_by(rows)
        known = self._locked(transaction, [seen for _, seen in said])
        learnt = learn_all(said, known, rule)
        self._heard = learnt.outcomes
        if self._outbox is not None:
            self._outbox.learn(transaction, learnt.steps)
        self._write(transaction, learnt.pages)
        listings = [row.fields[LISTED] for row in rows if LISTED in row.fields]
        hastened = [self._hasten(transaction, cast("Sequence[Listed]", one)) for one in listings]
        self._trust.note(transaction, learnt.steps, chain.from_iterable(hastened))
        return learnt.repeats

    def _hasten(
        self, transaction: Transaction, listed: Sequence[Listed]
    ) -> Sequence[tuple[str, str]]:
        """Have pages due at once that have changed since they were seen, as a sitemap says.

        But for those that are waited for, or were seen within their shortest interval, and for most
        pages of a domain that is not believed. Return domain and key of each.
        """
        changed = {each.key: each.changed_at for each in sorted(listed, key=itemgetter(1))}
        now, table = transaction.now(), quoted(self._name)
        hastened: list[tuple[str, str]] = []
        probes: Counter[str] = Counter()
        for some in batches(list(changed)):
            found = transaction.execute(
                f"select id, domain, last_seen, least_s from {table} where last_seen < %s"
                " and asked = 0 and gone = 0 and next_visit > %s"
                f" and id in ({marks_of(some)}) order by id{transaction.lock}",
                (as_time(changed[some[-1]]), as_time(now), *some),
            )
            due = [
                (str(domain), str(key))
                for key, domain, last_seen, least_s in found
                if (seen_at := seconds_of(last_seen) or 0) < changed[key]
                and seen_at + least_s <= now
            ]
            if kept := self._believed(transaction, due, probes):
                transaction.execute(
                    f"update {table} set next_visit = %s"
                    f" where id in ({marks_of(kept)}) returning null",
                    (as_time(now), *(key for _, key in kept)),
                )
                hastened += kept
        return hastened

    def _believed(
        self, transaction: Transaction, due: Sequence[tuple[str, str]], probes: Counter[str]
    ) -> Sequence[tuple[str, str]]:
        """Return pages of domains that are believed, and some others; count these by domain."""
        ignored = self._trust.ignored(transaction, {domain for domain, _ in due})
        kept = []
        for domain, key in due:
            if domain in ignored:
                probes[domain] += 1
            if probes[domain] <= PROBES:
                kept.append((domain, key))
        return kept

    def committed(self) -> None:
        """Count what was learnt."""
        note_learnt(self._pipeline, self._heard)
        self._heard = Counter()

    def _current_rule(self, transaction: Transaction) -> IntervalRule:
        if time.monotonic() >= self._rule_until:
            told = self._notes.get(transaction, STATE)
            self._rule = self._visits.rule(told.get(BASE))
            self._rule_until = time.monotonic() + self._visits.look_every_s
        return self._rule

    def _locked(self, transaction: Transaction, said: Sequence[Seen]) -> dict[str, KnownPage]:
        """Return the pages that are known, locked until the transaction ends.

        A page that is not known yet has a row without content then, if it is to enter.
        """
        keys = {seen.key for seen in said}
        lock = transaction.lock
        known = {page.key: page for page in self._selected(transaction, keys, lock=lock)}
        entering = {seen.key for seen in said if seen.enters} - known.keys()
        for some in batches(sorted(entering)):
            values = ", ".join(["(%s)"] * len(some))
            transaction.execute(
                f"insert into {quoted(self._name)} (id) values {values}"
                " on conflict (id) do nothing",
                some,
            )
        # Others may have come first with a page, and know more of it than that it is there.
        entered = self._selected(transaction, entering, lock=lock)
        return known | {page.key: page for page in entered}

    def _selected(
        self, transaction: Transaction, keys: Iterable[str], *, lock: str
    ) -> Iterator[KnownPage]:
        for some in batches(sorted(keys)):
            found = transaction.execute(
                f"select {listed(self._columns)} from {quoted(self._name)}"
                f" where id in ({marks_of(some)})"
                f" order by id{lock}",
                some,
            )
            yield from pages_of(found, self._columns)

    def _write(self, transaction: Transaction, pages: Mapping[str, KnownPage]) -> None:
        if pages:
            rows = [Row(key, 0, fields_of(pages[key])) for key in sorted(pages)]
            self._table.stage(transaction, rows)
            self._table.apply(transaction, rows)


def fields_of(page: KnownPage) -> Mapping[str, object]:
    """A page as the columns of its row hold it."""
    told: dict[str, Any] = {name: getattr(page, name) for name in _PLAIN}
    told |= {name: getattr(page.experience, of) for name, of in _LATE.items()}
    times = {name: as_time(told.get(name)) for name in _TIMES}
    return {**told, **times, "id": page.key}


def kinds_of(sink: PagesSink) -> Mapping[str, ColumnType]:
    """Return the columns of a memory."""
    return {**KINDS, **KEPT} if sink.keep else KINDS


def listed(columns: Iterable[str]) -> str:
    """Columns as a statement has them."""
    return ", ".join(map(quoted, columns))


def pages_of(rows: Iterable[Tuple], columns: Iterable[str] = KINDS) -> Iterator[KnownPage]:
    """The pages of rows of such columns; those without content are none."""
    columns = tuple(columns)
    for row in rows:
        told: dict[str, Any] = dict(zip(columns, row, strict=True))
        if told["url"] is None:
            continue
        for name in _TIMES:
            told[name] = seconds_of(told[name])
        late = {of: told[name] for name, of in _LATE.items()}
        told["is_liar"] = bool(told["is_liar"])
        own = {name: told[name] for name in _PLAIN if name in told}
        yield KnownPage(key=told["id"], experience=Experience(**late), **own)


def marks_of(keys: Sequence[object]) -> str:
    """The places of keys in a statement."""
    return ", ".join(["%s"] * len(keys))
