"""Visits in the memory's database: pages that are due, their order, and their cost.

A *claim* is a number of pages that are fed at once. It is noted before it is fed, so that after the
death of a feeder another one feeds these pages again, under equal occasions. The note is the lock:
one process claims at a time. A page without news is due again when its claim is over, each time
twice as late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipeline_service.memory.known_page import KnownPage
from pipeline_service.memory.sql.effect import (
    BASE,
    STATE,
    kinds_of,
    marks_of,
)
from pipeline_service.memory.sql.lastmod_trust import LastmodTrust
from pipeline_service.memory.sql.memory_client import MemoryClient
from pipeline_service.memory.sql.memory_table import MemoryTable
from pipeline_service.sinks.sql.database import Database, Transaction, as_time, batches, seconds_of
from pipeline_service.sinks.sql.notes import Notebook
from pipeline_service.sinks.sql.store import SqlStore
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.memory import PagesSink, Visits
from pipeline_service.spec.rule import DAY_S, base_for, visits_a_day
from pipeline_service.spec.visit_requests import Visit, VisitCrawl

MOST_AT_ONCE = 500
"""Pages of a claim."""
TURN_S = 30.0
"""Time for which only the process that made a claim may feed it; then any process may."""
BASE_EVERY_S = 3_600.0
_MOST_DOUBLINGS = 6
_AHEAD_S = 6 * DAY_S
"""An occasion further ahead is of a wrong clock: requests are taken within 7 days of theirs."""
_JUMPS = 8
"""Jumps of the clock after which the times of claims before them are known."""
_SAVED_S = 3_600.0
"""Visits that were not due are made up for, of so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitClaim:
    """Pages to be fed, and as what."""

    crawl: VisitCrawl
    visits: Sequence[Visit]
    is_last: bool
    """Nothing more is due, or may be asked for now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How visits go on."""

    due: int
    """Pages, counted up to 100,000."""
    in_flight: int
    late_s: float
    """How long ago the first that is due should have been visited."""
    fresh: float | None
    """Share of pages that have probably not changed since they were seen; None: no pages."""
    base_s: float


class VisitStore(MemoryClient):
    """The visits of one pipeline."""

    def __init__(
        self, database: Database, memory: SqlStore, pipeline: Pipeline, sink: PagesSink
    ) -> None:
        super().__init__(database, memory)
        self._name = pipeline.name
        self._table = MemoryTable(sink.table)
        self._columns = tuple(kinds_of(sink))
        self._visits = pipeline.visits or Visits()
        self._schedule = pipeline.visit_schedule
        self._notes = Notebook(pipeline.name, pipeline.edition)

    def claim(self, owner: str) -> VisitClaim | None:
        """Return the pages for ``owner`` to feed now; None: none is due, or another one feeds.

        The claim does not change until ``fed`` is called.
        """
        with self._transaction() as transaction:
            state, now = self._notes.lock(transaction, STATE), transaction.now()
            open_claim = state.get("open")
            if open_claim is None or not _is_of_use(open_claim, now):
                open_claim = self._make_claim(transaction, state, now)
            elif open_claim["by"] != owner and now < open_claim["until"] <= now + TURN_S:
                return None
            if open_claim is not None:
                open_claim = {**open_claim, "by": owner, "until": now + TURN_S}
            state["open"] = open_claim
            self._notes.put_object(transaction, STATE, state)
            return None if open_claim is None else self._read_claim(transaction, open_claim)

    def fed(self, claim: VisitClaim) -> None:
        """Its seeds are in Kafka."""
        with self._transaction() as transaction:
            state = self._notes.lock(transaction, STATE)
            if (state.get("open") or {}).get("at") == claim.crawl.at:
                state["open"] = None
                self._notes.put_object(transaction, STATE, state)

    def course(self) -> Course:
        """Return how visits go on, for metrics."""
        with self._transaction() as transaction:
            now = transaction.now()
            late = self._table.execute(transaction, "select min(next_visit) from {}")
            first = seconds_of(late[0][0])
            return Course(
                due=self._table.count(transaction, "next_visit <= %s", now),
                in_flight=self._table.count(transaction, "claimed_until > %s", now),
                late_s=0.0 if first is None else max(now - first, 0.0),
                fresh=self._table.fresh(transaction, now),
                base_s=self._base_s(self._notes.get(transaction, STATE)),
            )

    def due(self, most: int) -> Sequence[KnownPage]:
        """The pages that come next, those that wait longest first."""
        with self._transaction() as transaction:
            return self._table.pages(transaction, f"order by next_visit limit {int(most)}")

    def page(self, key: str) -> KnownPage | None:
        """A page by its key."""
        with self._transaction() as transaction:
            return next(iter(self._table.pages(transaction, "where id = %s", key)), None)

    def changed(self, since: float, after: str = "") -> Sequence[KnownPage]:
        """Return some pages that are new, changed or gone since a time; none behind the last."""
        with self._transaction() as transaction:
            return self._table.changed(transaction, self._columns, since, after)

    def visit_now(self, keys: Sequence[str]) -> Sequence[str]:
        """Have pages due at once; answers the keys of those that are known."""
        found: list[str] = []
        with self._transaction() as transaction:
            now = as_time(transaction.now())
            for some in batches(sorted(keys)):
                rows = self._table.execute(
                    transaction,
                    f"update {{}} set next_visit = %s, claimed_until = null, asked = 0"
                    f" where id in ({marks_of(some)}) and url is not null returning id",
                    now,
                    *some,
                )
                found += [str(row[0]) for row in rows]
        return found

    def status(self) -> Mapping[str, Any]:
        """Return numbers of pages, and the cost of their visits; counts all pages."""
        with self._transaction() as transaction:
            now = transaction.now()
            told = self._table.execute(
                transaction,
                "select count(*), sum(case when gone >= 2 then 1 else 0 end),"
                " sum(case when fails > 0 then 1 else 0 end),"
                " sum(case when is_liar then 1 else 0 end),"
                " sum(case when last_heard > %s then 1 else 0 end) from {} where url is not null",
                as_time(now - DAY_S),
            )[0]
            names = ("pages", "gone", "failing", "liars", "heard_of_in_a_day")
            numbers = {name: int(value or 0) for name, value in zip(names, told, strict=True)}
            always = self._table.execute(
                transaction,
                "select domain, count(*) from {} where visits >= 5 and changes = visits"
                " group by domain order by 2 desc, 1 limit 5",
            )
            base_s = self._base_s(self._notes.get(transaction, STATE))
            visits = visits_a_day(base_s, self._table.paced(transaction))
            if (clock := self._visits.clock) is not None:
                visits = float((numbers["pages"] - numbers["gone"]) * clock.times_a_day(now))
            return {
                **numbers,
                "due": self._table.count(transaction, "next_visit <= %s", now),
                "in_flight": self._table.count(transaction, "claimed_until > %s", now),
                "fresh": self._table.fresh(transaction, now),
                "base_s": round(base_s, 3),
                "visits_a_day": round(visits, 3),
                "lastmods_ignored": LastmodTrust(self._notes).count_ignored(transaction),
                "always_changed": {str(domain): int(pages) for domain, pages in always},
            }

    def _make_claim(
        self, transaction: Transaction, state: dict[str, Any], now: float
    ) -> dict[str, Any] | None:
        """Choose pages, if any may be asked for; changes the state."""
        self._renew_base(transaction, state, now)
        self._save(state, now)
        self._release(transaction, now)
        in_flight = self._table.count(transaction, "claimed_until > %s", now)
        most = min(MOST_AT_ONCE, self._visits.in_flight - in_flight, int(state["saved"]))
        if most <= 0:
            return None
        found = self._table.execute(
            transaction,
            f"select id, asked from {{}} where next_visit <= %s order by next_visit limit {most}"
            f"{transaction.lock_free}",
            as_time(now),
        )
        if not found:
            return None
        length_s = self._visits.answer_within
        began = math.floor(now / length_s) * length_s
        self._put_off(transaction, found, began + 2 * length_s)
        state["saved"] -= len(found)
        return {
            "at": _new_occasion(state, now),
            "crawlid": f"{self._name}-{datetime.fromtimestamp(began, UTC):%Y%m%dT%H%M%SZ}",
            "expires": math.ceil(began + 2 * length_s),
            "keys": sorted(str(key) for key, _ in found),
            "is_last": len(found) < most,
        }

    def _release(self, transaction: Transaction, now: float) -> None:
        """Release pages that are claimed for longer than is possible, by a clock that was ahead."""
        longest = 2 * self._visits.answer_within + TURN_S
        self._table.execute(
            transaction,
            "update {} set claimed_until = null, next_visit = %s, asked = 0"
            " where claimed_until > %s returning null",
            *(as_time(now), as_time(now + longest)),
        )

    def _put_off(self, transaction: Transaction, found: Sequence[Any], until: float) -> None:
        """Postpone pages until then; pages that had no news before, for longer."""
        length_s = self._visits.answer_within
        for asked in sorted({int(times or 0) for _, times in found}):
            keys = [str(key) for key, times in found if int(times or 0) == asked]
            again = until + length_s * (2 ** min(asked, _MOST_DOUBLINGS) - 1)
            self._table.execute(
                transaction,
                "update {} set claimed_until = %s, next_visit = %s, asked = %s"
                f" where id in ({marks_of(keys)}) returning null",
                *(as_time(until), as_time(again), asked + 1),
                *keys,
            )

    def _read_claim(self, transaction: Transaction, told: Mapping[str, Any]) -> VisitClaim:
        """Return the pages with their numbers, equal for every feeder."""
        keys = told["keys"]
        pages = self._table.pages(transaction, f"where id in ({marks_of(keys)}) order by id", *keys)
        crawl = VisitCrawl(
            crawlid=told["crawlid"],
            schedule=self._schedule,
            at=told["at"],
            expires=told["expires"],
            more=self._visits.crawl,
        )
        return VisitClaim(
            crawl=crawl,
            visits=[_visit(page, keys.index(page.key)) for page in pages],
            is_last=told["is_last"],
        )

    def _renew_base(self, transaction: Transaction, state: dict[str, Any], now: float) -> None:
        """Have the base at which all pages come to ``per_day`` visits."""
        per_day = self._visits.per_day
        if per_day is None:
            state.pop(BASE, None)
            return
        is_of_now = state.get("per_day") == per_day and 0 <= now - state["renewed"] < self._renew_s
        if is_of_now:
            return
        base_s = base_for(per_day, self._table.paced(transaction))
        if base_s is not None:
            state |= {BASE: base_s, "per_day": per_day, "renewed": now}

    @property
    def _renew_s(self) -> float:
        """An hour, or sooner where pages are visited more often than that."""
        return min(BASE_EVERY_S, 20 * self._visits.look_every_s)

    def _save(self, state: dict[str, Any], now: float) -> None:
        """Add the visits that became allowed since the last call; ``saved`` is the rest."""
        per_day, most = self._visits.per_day, float(MOST_AT_ONCE)
        if per_day is not None:
            most = max(per_day * _SAVED_S / DAY_S, 1.0)
            passed_s = max(now - state.get("saved_at", now), 0.0)
            saved = state.get("saved", 0.0) + per_day * passed_s / DAY_S
            state["saved"] = min(saved, most)
        else:
            state["saved"] = most
        state["saved_at"] = now

    def _base_s(self, state: Mapping[str, Any]) -> float:
        return self._visits.rule(state.get(BASE)).base_s


def _new_occasion(state: dict[str, Any], now: float) -> int:
    """Choose the time of a claim, different from that of every other claim; changes the state.

    Where the clock jumps, the latest time before the jump is kept, too: the clock may jump back.
    """
    latest: list[int] = state.pop("latest", [state.pop("at", 0)])
    at = max(int(now), *(known + 1 for known in latest if known <= now + _AHEAD_S), 0)
    state["latest"] = [*(known for known in latest if not known < at <= known + _AHEAD_S), at]
    state["latest"] = state["latest"][-_JUMPS:]
    return at


def _is_of_use(claim: Mapping[str, Any], now: float) -> bool:
    """Return whether what it feeds now would be crawled, and not refused or expired."""
    return bool(claim["at"] <= now + _AHEAD_S and now < claim["expires"])


def _visit(page: KnownPage, number: int) -> Visit:
    etag, last_modified = page.validators
    return Visit(
        number=number,
        url=page.url,
        appid=page.appid,
        spiderid=page.spiderid,
        etag=etag,
        last_modified=last_modified,
    )
