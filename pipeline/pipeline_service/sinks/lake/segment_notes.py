"""Notes of the segments of one partition, in objects next to a table.

Below ``_crawlstream/<pipeline>/_log/<topic>-<partition>/``, a position being ``<next>-<token>``:

    ``<position>.json``  files, account up to there, and the position before
    ``<position>.ids``   16 bytes for each page that was read
    ``origin.json``      beginning of a pipeline that does not begin at the oldest record

``_log/edition`` names the edition that writes to the table.

They are put before the commit of their position. The table says which position counts, so those of
a process that died before its commit, or was refused, are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store
from crawlstream.wire import jsontext
from pipeline_service.records.account import Account
from pipeline_service.sinks.files.claims import BrokenChain, topic_name
from pipeline_service.sinks.files.repeats import ID_BYTES, Repeats
from pipeline_service.sinks.lake.table import LakePosition

FOLDER = "_crawlstream"
"""Folder in a table's; readers and vacuum pass over names that begin so."""
_VERSION = 1
_EDITION = "_log/edition"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentNote:
    """A segment and the account of the partition up to its end."""

    start: int
    position: LakePosition
    previous: LakePosition | None
    """Position that it follows; None: it is the first one."""
    files: Mapping[str, Mapping[str, object]]
    """Rows, bytes and digest of each file."""
    account: Account


class LakeNotes:
    """Notes of one partition; calls block and raise StoreUnavailable."""

    def __init__(self, store: Store, topic_id: str, partition: int) -> None:
        self.name = f"{topic_name(topic_id)}-{partition:05}"
        """Begins the names of all files of the partition, too."""
        self._store = store
        self._folder = f"_log/{self.name}"

    def put(self, note: SegmentNote, ids: bytes) -> None:
        """Put the notes of a segment that is not committed yet."""
        record = {
            "v": _VERSION,
            "start": note.start,
            "next": note.position.next,
            "previous": _plain(note.previous),
            "files": note.files,
            **note.account.as_record(),
        }
        self._store.put(self._named(note.position, "ids"), ids)
        self._store.put(self._named(note.position, "json"), _encoded(record))

    def account(self, position: LakePosition | None) -> Account:
        """Return the account up to a position of the table. BrokenChain."""
        if position is None:
            return Account()
        record = self._record(position)
        try:
            return Account.of_record(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._broken(position) from error

    def repeats(self, position: LakePosition | None, most: int) -> Repeats:
        """Return the ids of the segments up to a position that are kept. BrokenChain."""
        known = Repeats(most)
        while position is not None and not known.is_full:
            ids = self._store.get(self._named(position, "ids")) or b""
            known.add_older(ids[: len(ids) - len(ids) % ID_BYTES])
            previous = self._record(position).get("previous")
            position = None if previous is None else LakePosition(*previous)
        return known

    def origin(self) -> int | None:
        """Offset to begin at while the table has no position; None: it is not set."""
        raw = self._store.get(f"{self._folder}/origin.json")
        return None if raw is None else int(_decoded(raw)["start"])

    def begin(self, offset: int) -> int:
        """Note where the partition begins, unless it is noted; return where that is."""
        self._store.create(f"{self._folder}/origin.json", _encoded({"start": offset}))
        origin = self.origin()
        return offset if origin is None else origin

    def _record(self, position: LakePosition) -> dict[str, Any]:
        raw = self._store.get(self._named(position, "json"))
        if raw is None:
            raise self._broken(position)
        try:
            return _decoded(raw)
        except ValueError as error:
            raise self._broken(position) from error

    def _named(self, position: LakePosition, kind: str) -> str:
        return f"{self._folder}/{position.name}.{kind}"

    def _broken(self, position: LakePosition) -> BrokenChain:
        name = self._store.url(self._named(position, "json"))
        return BrokenChain(
            f"the table is at offset {position.next}, but its account {name} is missing or damaged:"
            " restore it, or begin a new edition of the pipeline with another url"
        )


def check_edition(store: Store, owner: str) -> None:
    """Note which edition writes to the table. ConfigError: another one does."""
    store.create(_EDITION, owner.encode())
    there = (store.get(_EDITION) or b"").decode(errors="replace")
    if there != owner:
        raise ConfigError(
            f"the table has the pages of edition {there.rpartition('/')[2]} of this pipeline: name"
            " another url, so that no page is there twice"
        )


def _plain(position: LakePosition | None) -> object:
    return None if position is None else [position.next, position.token]


def _encoded(record: Mapping[str, Any]) -> bytes:
    return jsontext.dumps(record) + b"\n"


def _decoded(raw: bytes) -> dict[str, Any]:
    record = jsontext.loads(raw)
    if not isinstance(record, dict):
        raise ValueError("expected an object")  # noqa: TRY004  as of other damaged text
    return record
