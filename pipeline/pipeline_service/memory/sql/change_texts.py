"""Table of the texts of pages at their last event, from which the diff of the next event is made.

The transaction that records an event also stores the new text. So each diff of a page begins with
the text at which its previous diff ended. Diffs take long. They are computed before that
transaction, from texts that an earlier transaction has read. The transaction verifies the
signatures of both texts. If another process has changed a page in between, the transaction is
undone, and the texts are read and compared again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pipeline_service.formats.columns import ColumnType
from pipeline_service.memory.kept_text import KeptText, pack, unpack
from pipeline_service.memory.line_diff import MOST_STEPS, diff_lines
from pipeline_service.memory.page_changes import ChangeKind, LearntStep, TextDiff, change_of
from pipeline_service.sinks.sql.database import Database, Transaction, Unforeseen, batches, quoted

_SUFFIX = "_text"
_MOST_STEPS_TOGETHER = 4_000_000
"""Steps for all diffs of a batch. With 200 changes, each diff can have some hundred lines."""
_WITH_DIFF = (ChangeKind.CHANGED, ChangeKind.BACK)


class TextPair(NamedTuple):
    """The texts of a page before and after a change."""

    before: KeptText
    after: KeptText

    @property
    def key(self) -> tuple[str, str]:
        """The signatures of both texts."""
        return self.before.signature, self.after.signature


class ChangeTexts:
    """Reads and writes the texts of one memory."""

    def __init__(self, table: str) -> None:
        """``table``: name of the table of the memory."""
        self._name = quoted(table + _SUFFIX)
        self._diffs: dict[tuple[str, str], TextDiff] = {}
        """Diffs for the next transaction, by the signatures of both texts."""

    def prepare(self, database: Database, transaction: Transaction) -> None:
        """Create the table if it does not exist."""
        kinds = (ColumnType.TEXT, ColumnType.FLAG, ColumnType.BYTES)
        text, flag, octets = (database.types[kind] for kind in kinds)
        transaction.execute(
            f"create table if not exists {self._name} (id {text} primary key,"
            f" signature {text} not null, is_whole {flag} not null, text {octets} not null)"
        )

    def pairs(self, transaction: Transaction, steps: Sequence[LearntStep]) -> Sequence[TextPair]:
        """Return the texts of which these steps need a diff; locks nothing."""
        keys = {step.after.key for step in steps if step.seen.text and _kind(step) in _WITH_DIFF}
        known = self._texts(transaction, keys)
        texts = {each.signature: each for each in known.values()}
        texts |= {text.signature: text for step in steps if (text := step.seen.text)}
        found, _ = _followed(steps, {key: each.signature for key, each in known.items()})
        return [TextPair(texts[each[0]], texts[each[1]]) for each in found if each]

    def compare(self, pairs: Sequence[TextPair]) -> None:
        """Compute the diffs; takes CPU time."""
        each_steps = min(MOST_STEPS, _MOST_STEPS_TOGETHER // max(len(pairs), 1))
        self._diffs = {pair.key: _compared(pair, each_steps) for pair in pairs}

    def learn(
        self, transaction: Transaction, steps: Sequence[LearntStep]
    ) -> Sequence[TextDiff | None]:
        """Store the texts of steps, whose pages are locked; return the diff of each step.

        Unforeseen: a diff has not been computed.
        """
        known = self._signatures(transaction, {step.after.key for step in steps if step.seen.text})
        pairs, kept = _followed(steps, known)
        if any(pair is not None and pair not in self._diffs for pair in pairs):
            raise Unforeseen
        for key in sorted(kept):
            text = kept[key]
            transaction.execute(
                f"insert into {self._name} (id, signature, is_whole, text) values (%s, %s, %s, %s)"
                " on conflict (id) do update set signature = excluded.signature,"
                " is_whole = excluded.is_whole, text = excluded.text",
                (key, text.signature, text.is_whole, pack(text)),
            )
        return [None if pair is None else self._diffs[pair] for pair in pairs]

    def _texts(self, transaction: Transaction, keys: Collection[str]) -> dict[str, KeptText]:
        found: dict[str, KeptText] = {}
        for some in batches(sorted(keys)):
            rows = transaction.execute(
                f"select id, signature, is_whole, text from {self._name}"
                f" where id in ({', '.join(['%s'] * len(some))})",
                some,
            )
            for key, signature, is_whole, packed in rows:
                text = unpack(str(signature), bytes(packed), is_whole=bool(is_whole))
                found[str(key)] = text
        return found

    def _signatures(self, transaction: Transaction, keys: Collection[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for some in batches(sorted(keys)):
            rows = transaction.execute(
                f"select id, signature from {self._name}"
                f" where id in ({', '.join(['%s'] * len(some))})",
                some,
            )
            found |= {str(key): str(signature) for key, signature in rows}
        return found


def _followed(
    steps: Sequence[LearntStep], known: Mapping[str, str]
) -> tuple[Sequence[tuple[str, str] | None], Mapping[str, KeptText]]:
    """Return the two signatures of each step's diff, and the texts to store.

    ``known``: signature of the stored text, by the key of the page. The text of a step without an
    event is stored only if the page has none.
    """
    signatures, kept = dict(known), dict[str, KeptText]()
    pairs: list[tuple[str, str] | None] = []
    for step in steps:
        key, text, kind = step.after.key, step.seen.text, _kind(step)
        before = signatures.get(key)
        if text is None or before is None or kind not in _WITH_DIFF:
            pairs.append(None)
        else:
            pairs.append((before, text.signature))
        if text is not None and (before is None or kind is not None):
            signatures[key] = text.signature
            kept[key] = text
    return pairs, kept


def _kind(step: LearntStep) -> ChangeKind | None:
    return change_of(step.before, step.after)


def _compared(pair: TextPair, most_steps: int) -> TextDiff:
    before, after = pair
    diff = diff_lines(before.text, after.text, most_steps=most_steps)
    return TextDiff(
        added=diff.added,
        removed=diff.removed,
        text=diff.text,
        truncated=diff.text is None or not (before.is_whole and after.is_whole),
    )
