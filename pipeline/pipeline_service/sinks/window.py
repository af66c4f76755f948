"""The keys of the last rows of a partition, for a store that does not know its keys by itself.

They are notes in a ring, ``<place>/keys/<slot>``, each of a few hundred keys: what a transaction
adds is written with it, and the oldest are overwritten.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from crawlstream.plugins.sinks import Row
from crawlstream.wire import jsontext
from pipeline_service.claims import BrokenChain
from pipeline_service.repeats import ID_BYTES, short

SLOT = 256
"""Keys of a note."""
_KEYS = "{}/keys/{}"


class Window:
    """What is remembered of one partition."""

    def __init__(self, place: str, most: int) -> None:
        """``most``: how many keys at least, once there were as many; 0: none."""
        self._place = place
        self._slots = -(-most // SLOT) + 1 if most else 0
        self._ring: dict[int, bytes] = {}
        """Keys, one after the other, by number of the note; the last one may grow."""
        self._known: set[bytes] = set()

    @classmethod
    def of_notes(cls, notes: Mapping[str, str], place: str, most: int) -> Window:
        """What was kept; BrokenChain."""
        window = cls(place, most)
        begin = _KEYS.format(place, "")
        try:
            for name in notes:
                if name.startswith(begin):
                    told: Any = jsontext.loads(notes[name].encode())
                    window._ring[int(told["number"])] = b64decode(told["keys"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenChain(
                f"the notes {begin} are not what a pipeline has written; begin a new edition of it"
            ) from error
        window._known = {key for keys in window._ring.values() for key in _split(keys)}
        return window

    def without_repeats(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those whose keys are not known."""
        return [row for row in rows if short(row.key) not in self._known]

    def noted(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """The notes that remember rows, too."""
        return {
            _KEYS.format(self._place, number % self._slots): _text(number, keys)
            for number, keys in self._with(rows).items()
        }

    def add(self, rows: Sequence[Row]) -> None:
        """Remember rows that are written; the oldest are forgotten."""
        self._ring |= self._with(rows)
        self._known.update(short(row.key) for row in rows)
        for number in list(islice(sorted(self._ring), max(len(self._ring) - self._slots, 0))):
            self._known.difference_update(_split(self._ring.pop(number)))

    def _with(self, rows: Collection[Row]) -> dict[int, bytes]:
        """What becomes of the last note, and notes behind it."""
        if not self._slots or not rows:
            return {}
        number = max(self._ring, default=0)
        keys = self._ring.get(number, b"") + b"".join(short(row.key) for row in rows)
        size = SLOT * ID_BYTES
        pieces = [keys[at : at + size] for at in range(0, len(keys), size)]
        return dict(enumerate(pieces, number))


def _text(number: int, keys: bytes) -> str:
    return jsontext.dumps({"number": number, "keys": b64encode(keys).decode()}).decode()


def _split(keys: bytes) -> list[bytes]:
    return [keys[at : at + ID_BYTES] for at in range(0, len(keys), ID_BYTES)]
