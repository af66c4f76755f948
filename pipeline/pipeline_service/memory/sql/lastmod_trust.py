"""Trust in the ``lastmod`` of a domain's sitemaps: many sites set it without a change of the page.

Some of the pages that a ``lastmod`` made due are noted, and whether their visit found a change. A
domain with too many unchanged ones is not believed: then only a few pages of a file are due at
once, so that a domain that changes its ways is believed again.

A domain without such a page for half a year is forgotten, when the note of one before it is
written: nothing else has to look through the domains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline_service.memory.page_changes import LearntStep
from pipeline_service.sinks.sql.database import Transaction
from pipeline_service.sinks.sql.notes import Notebook

_SAMPLE = 20
"""Latest visits of a domain by which it is judged."""
_MOST_UNCHANGED = 14
"""Visits of them that may find no change."""
PROBES = 5
"""Pages of one file that are due at once though their domain is not believed."""
_KEPT_S = 180 * 24 * 3600
"""Seconds without a page that a ``lastmod`` made due, after which a domain is forgotten."""
_LOOKED_AT = 4
"""Domains that are looked at when notes are written: more than one, so that no more are kept."""
_PREFIX = "lastmod "


@dataclass(slots=True)
class _Domain:
    """State of a domain, as its note has it."""

    asked: list[str] = field(default_factory=list)
    """Keys of pages whose visit is awaited."""
    found: str = ""
    """A letter for each of the latest visits: ``c`` for a change, otherwise ``u``."""

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> _Domain:
        return cls(list(note.get("asked", ())), str(note.get("found", "")))

    def visited(self, step: LearntStep) -> None:
        """Note a visit of a page that was known, if it was awaited."""
        if step.before is not None and step.after.key in self.asked:
            self.asked.remove(step.after.key)
            has_changed = step.after.changes > step.before.changes
            self.found = (self.found + ("c" if has_changed else "u"))[-_SAMPLE:]

    @property
    def is_believed(self) -> bool:
        return self.found.count("u") <= _MOST_UNCHANGED

    def note(self, at: float) -> Mapping[str, Any]:
        told = {"asked": self.asked, "found": self.found, "ignored": not self.is_believed}
        return {**told, "at": int(at)}


class LastmodTrust:
    """The domains of one memory; every call is part of a transaction."""

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    def ignored(self, transaction: Transaction, domains: Iterable[str]) -> Collection[str]:
        """Return the domains that are not believed."""
        return {
            domain
            for domain, state in self._read(transaction, domains).items()
            if not state.is_believed
        }

    def count_ignored(self, transaction: Transaction) -> int:
        """Return the number of domains of the memory that are not believed."""
        of = f"substr(name, 1, {len(_PREFIX)}) = '{_PREFIX}' and value like %s"
        return len(self._notes.select(transaction, '%"ignored":true%', of=of))

    def note(
        self,
        transaction: Transaction,
        steps: Iterable[LearntStep],
        asked: Iterable[tuple[str, str]],
    ) -> None:
        """Note what was learnt, and pages that are due by ``lastmod``: domain and key of each.

        Call it last: the domains stay locked until the transaction ends.
        """
        visits: dict[str, list[LearntStep]] = defaultdict(list)
        for step in steps:
            if step.before is not None and step.seen.enters:
                visits[step.after.domain].append(step)
        keys: dict[str, list[str]] = defaultdict(list)
        for domain, key in asked:
            keys[domain].append(key)
        awaited = {
            domain
            for domain, state in self._read(transaction, visits).items()
            if any(visit.after.key in state.asked for visit in visits[domain])
        }
        now = transaction.now()
        for domain in sorted(awaited | keys.keys()):
            state = _Domain.of(self._notes.lock(transaction, _PREFIX + domain))
            for visit in visits.get(domain, ()):
                state.visited(visit)
            state.asked = list(dict.fromkeys(state.asked + keys[domain][:_SAMPLE]))[-_SAMPLE:]
            self._notes.put_object(transaction, _PREFIX + domain, state.note(now))
        if keys:
            self._forget(transaction, max(keys), now)

    def _forget(self, transaction: Transaction, domain: str, now: float) -> None:
        """Forget domains after this one whose last note is old; others may be writing some now."""
        most: Any = {"prefix": _PREFIX, "most": _LOOKED_AT}
        found = self._notes.free_after(transaction, _PREFIX + domain, **most)
        found = found or self._notes.free_after(transaction, _PREFIX, **most)
        old = [name for name, note in found.items() if note.get("at", 0) < now - _KEPT_S]
        self._notes.put(transaction, dict.fromkeys(old))

    def _read(self, transaction: Transaction, domains: Iterable[str]) -> dict[str, _Domain]:
        names = sorted({_PREFIX + domain for domain in domains})
        found = self._notes.objects(transaction, names)
        return {name.removeprefix(_PREFIX): _Domain.of(note) for name, note in found.items()}
