"""Chain of claims of one partition: the owner of each segment, and the position of the store.

Below ``_log/<topic>-<partition>/``, ``<start>`` being the offset where a segment begins:

    ``<start>.json``        the claim, created exclusively and never changed: it ends at `next`
    ``<start>.ids``         16 bytes for each page that was read, put with the data
    ``<start>.<name>.refs`` earlier records that revisits refer to, put before the claim that names
                            it, and removed when the segment is finished
    ``<start>.done.json``   files and account; each writer of a segment writes equal ones
    ``origin.json``         beginning of a pipeline that does not begin at the oldest record
    ``latest``              start of the last finished segment: a hint, where to begin to walk

The chain ends at the first offset that is not claimed. A claim without ``done`` is the work of a
process that died, or is frozen: the segment is made again, to exactly its end, under equal names.
"""

from __future__ import annotations

import hashlib
import re
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from crawlstream.errors import CrawlstreamError
from crawlstream.store.store import Store, StoreUnavailable
from crawlstream.wire import jsontext
from pipeline_service.formats.payloads import PayloadRecord
from pipeline_service.records.account import Account
from pipeline_service.sinks.files.repeats import ID_BYTES, Repeats

_VERSION = 1
_CLAIM = re.compile(r"(\d{20})\.json\Z")


class BrokenChain(CrawlstreamError):
    """The store's contents were not written by a pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Offsets ``start`` up to ``next`` of a partition, and the files that they become."""

    start: int
    next: int
    previous: int | None
    """Start of the claim before; None: the first one."""
    files: Sequence[str] = ()
    """Their names in the store."""
    by: str = ""
    """Name of the writer that made it: no two writers have one name."""
    refs: str = ""
    """Name of its references to earlier records; empty: it has none."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a chain ends."""

    last: Claim | None
    """The last claim; None: there is none."""
    is_finished: bool
    """True if all of it is in the store."""
    account: Account
    """Account of all finished segments."""
    origin: int | None
    """Offset to begin at while there is no claim; None: it is not set."""

    @property
    def position(self) -> int | None:
        """The first offset that is not in the store for good."""
        if self.last is None:
            return self.origin
        return self.last.next if self.is_finished else self.last.start


class ClaimChain:
    """The claims of one partition; calls block and raise StoreUnavailable."""

    def __init__(self, store: Store, topic_id: str, partition: int) -> None:
        self.name = f"{topic_name(topic_id)}-{partition:05}"
        """Begins the names of all files of the partition, too."""
        self._store = store
        self._folder = f"_log/{self.name}"

    def end(self) -> End:
        """Walk to the end of the chain. BrokenChain."""
        last = self._hinted() or self._newest()
        while last is not None and (after := self._claim(last.next)) is not None:
            last = after
        if last is None:
            return End(None, is_finished=False, account=Account(), origin=self._origin())
        if (account := self._account(last.start)) is not None:
            return End(last, is_finished=True, account=account, origin=None)
        before = Account() if last.previous is None else self._account(last.previous)
        if before is None:
            raise BrokenChain(
                f"{self._folder} has no account of the segment at {last.previous}, which others"
                " follow: somebody has removed it; begin a new edition of the pipeline"
            )
        return End(last, is_finished=False, account=before, origin=None)

    def repeats(self, last: Claim | None, most: int) -> Repeats:
        """Return the ids of the segments up to ``last`` that are kept against repeats."""
        known = Repeats(most)
        while last is not None and not known.is_full:
            ids = self._store.get(self._named(last.start, "ids")) or b""
            known.add_older(ids[: len(ids) - len(ids) % ID_BYTES])
            last = None if last.previous is None else self._claim(last.previous)
        return known

    def before(self, claim: Claim) -> Claim | None:
        """The claim before one."""
        return None if claim.previous is None else self._claim(claim.previous)

    def begin(self, offset: int) -> int:
        """Note where the chain begins, unless it is noted; return where that is."""
        self._store.create(f"{self._folder}/origin.json", _encoded({"start": offset}))
        origin = self._origin()
        return offset if origin is None else origin

    def claim(self, claim: Claim) -> bool:
        """Make a claim; False if another writer has claimed its first offset."""
        name = self._named(claim.start, "json")
        record = {
            "v": _VERSION,
            "start": claim.start,
            "next": claim.next,
            "previous": claim.previous,
            "files": list(claim.files),
            "by": claim.by,
            **({"refs": claim.refs} if claim.refs else {}),
        }
        if self._store.create(name, _encoded(record)):
            return True
        # Perhaps this writer has made it, and only the answer was lost.
        there = self._claim(claim.start)
        return there is not None and there.by == claim.by

    def put_refs(self, start: int, name: str, refs: Mapping[str, PayloadRecord]) -> None:
        """Put the references of a segment that is not claimed yet."""
        packed = zlib.compress(jsontext.dumps({page: list(refs[page]) for page in sorted(refs)}))
        self._store.put(self._named(start, f"{name}.refs"), packed)

    def refs(self, claim: Claim) -> Mapping[str, PayloadRecord]:
        """Return the references of a claim, by the id of the page. StoreUnavailable, BrokenChain.

        They are gone where another process has just finished the segment.
        """
        if not claim.refs:
            return {}
        name = self._named(claim.start, f"{claim.refs}.refs")
        if (packed := self._store.get(name)) is None:
            raise StoreUnavailable(
                f"{name} is missing: wait for the process that finishes its segment, or, if there"
                " is none, begin a new edition of the pipeline"
            )
        try:
            told: Any = jsontext.loads(zlib.decompress(packed))
            return {str(page): PayloadRecord(*map(str, told[page])) for page in told}
        except (TypeError, ValueError, zlib.error) as error:
            raise _broken(name) from error

    def remove_refs(self, start: int, name: str) -> None:
        """Remove the references of a claim that is finished, or was not made."""
        self._store.remove(self._named(start, f"{name}.refs"))

    def put_ids(self, start: int, ids: bytes) -> None:
        """Put the ids of a segment's pages."""
        self._store.put(self._named(start, "ids"), ids)

    def finish(
        self, claim: Claim, files: Mapping[str, Mapping[str, Any]], account: Account
    ) -> None:
        """Note that a segment is whole: its files, and the account up to its end."""
        record = {"v": _VERSION, "start": claim.start, "next": claim.next, "files": files}
        self._store.put(
            self._named(claim.start, "done.json"), _encoded(record | account.as_record())
        )
        self._store.put(f"{self._folder}/latest", b"%d\n" % claim.start)

    def _hinted(self) -> Claim | None:
        hint = (self._store.get(f"{self._folder}/latest") or b"").strip()
        return self._claim(int(hint)) if hint.isdigit() and len(hint) <= 20 else None

    def _newest(self) -> Claim | None:
        names = (name.rpartition("/")[2] for name in self._store.list(self._folder))
        starts = [int(found[1]) for name in names if (found := _CLAIM.match(name))]
        return self._claim(max(starts)) if starts else None

    def _claim(self, start: int) -> Claim | None:
        record = self._record(self._named(start, "json"))
        if record is None:
            return None
        try:
            return Claim(
                start=int(record["start"]),
                next=int(record["next"]),
                previous=None if record["previous"] is None else int(record["previous"]),
                files=list(map(str, record["files"])),
                by=str(record["by"]),
                refs=str(record.get("refs", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _broken(self._named(start, "json")) from error

    def _account(self, start: int) -> Account | None:
        name = self._named(start, "done.json")
        record = self._record(name)
        try:
            return None if record is None else Account.of_record(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _broken(name) from error

    def _origin(self) -> int | None:
        record = self._record(f"{self._folder}/origin.json")
        return None if record is None else int(record["start"])

    def _record(self, name: str) -> dict[str, Any] | None:
        raw = self._store.get(name)
        if raw is None:
            return None
        try:
            record = jsontext.loads(raw)
        except ValueError as error:
            raise _broken(name) from error
        if not isinstance(record, dict):
            raise _broken(name)
        return record

    def _named(self, start: int, kind: str) -> str:
        return f"{self._folder}/{start:020}.{kind}"


def topic_name(topic_id: str) -> str:
    """Return 8 characters that distinguish a topic from another of its name."""
    try:
        return UUID(topic_id).hex[:8]
    except ValueError:
        return hashlib.blake2b(topic_id.encode(), digest_size=4).hexdigest()


def new_writer() -> str:
    """A name that no other writer has."""
    return uuid.uuid4().hex


def _encoded(record: Mapping[str, Any]) -> bytes:
    return jsontext.dumps(record) + b"\n"


def _broken(name: str) -> BrokenChain:
    return BrokenChain(f"{name} is not what a pipeline has written; begin a new edition of it")
