"""Window of the ids of the last pages of a partition that the store itself cannot look up.

They are notes in a ring, ``ids/<place>/<slot>``, each of a few hundred ids: the ids that a
transaction adds are written with it, and the oldest are overwritten.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from crawlstream.wire import jsontext
from pipeline_service.sinks.files.claims import BrokenChain
from pipeline_service.sinks.files.repeats import ID_BYTES, short

SLOT = 256
"""Ids of a note."""
_IDS = "ids/{}/{}"


def notes_of(place: str) -> str:
    """Return the prefix of the names of its notes."""
    return _IDS.format(place, "")


class IdWindow:
    """Kept ids of one partition."""

    def __init__(self, place: str, most: int) -> None:
        """``most``: how many ids at least, once there were as many; 0: none."""
        self._place = place
        self._slots = -(-most // SLOT) + 1 if most else 0
        self._ring: dict[int, bytes] = {}
        """Ids, one after the other, by number of the note; the last one may grow."""
        self._known: set[bytes] = set()

    @classmethod
    def of_notes(cls, notes: Mapping[str, str], place: str, most: int) -> IdWindow:
        """Read the kept notes; BrokenChain."""
        window = cls(place, most)
        begin = notes_of(place)
        try:
            for name in notes:
                if name.startswith(begin):
                    told: Any = jsontext.loads(notes[name].encode())
                    window._ring[int(told["number"])] = b64decode(told["ids"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenChain(
                f"the notes {begin} are not what a pipeline has written; begin a new edition of it"
            ) from error
        window._known = {name for ids in window._ring.values() for name in _split(ids)}
        return window

    def __contains__(self, page_id: str) -> bool:
        return short(page_id) in self._known

    def noted(self, page_ids: Sequence[str]) -> Mapping[str, str]:
        """The notes that remember these pages, too; none of them may be known."""
        return {
            _IDS.format(self._place, number % self._slots): _text(number, ids)
            for number, ids in self._with(page_ids).items()
        }

    def add(self, page_ids: Sequence[str]) -> None:
        """Remember pages of which the notes are written; the oldest are forgotten."""
        if not self._slots:
            return
        self._ring |= self._with(page_ids)
        self._known.update(map(short, page_ids))
        for number in list(islice(sorted(self._ring), max(len(self._ring) - self._slots, 0))):
            self._known.difference_update(_split(self._ring.pop(number)))

    def _with(self, page_ids: Sequence[str]) -> dict[int, bytes]:
        """Return the new last note, and notes behind it."""
        if not self._slots or not page_ids:
            return {}
        number = max(self._ring, default=0)
        ids = self._ring.get(number, b"") + b"".join(map(short, page_ids))
        size = SLOT * ID_BYTES
        pieces = [ids[at : at + size] for at in range(0, len(ids), size)]
        return dict(enumerate(pieces, number))


def _text(number: int, ids: bytes) -> str:
    return jsontext.dumps({"number": number, "ids": b64encode(ids).decode()}).decode()


def _split(ids: bytes) -> list[bytes]:
    return [ids[at : at + ID_BYTES] for at in range(0, len(ids), ID_BYTES)]
