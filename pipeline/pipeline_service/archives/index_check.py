"""Comparison of an index (CDXJ) with the records of its file, in whatever order these are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from crawlstream.wire import jsontext
from pipeline_service.archives.warc_file import WarcRecord
from pipeline_service.formats.cdxj import surt

_MODULUS = 1 << 128
_SECONDS = 19
"""Characters of a date without its fraction."""


class IndexCheck:
    """Sums of what an index has to say, and of what it says."""

    def __init__(self, name: str) -> None:
        """``name``: of the file, as its index has it."""
        self._name = name
        self._expected = 0
        self._count = 0

    def expect(self, record: WarcRecord) -> None:
        """Note a record of the file."""
        is_revisit = record.kind == "revisit"
        if record.kind != "response" and not (is_revisit and record.holder):
            return
        url, date = record.place
        self._count += 1
        self._expected += _sum(
            *(surt(url), "".join(filter(str.isdigit, date[:_SECONDS])), url, self._name),
            *(str(record.offset), str(record.length), record.get("warc-payload-digest")),
            "revisit" if is_revisit else "",
        )

    def fault(self, lines: Iterable[bytes]) -> str:
        """Return what is wrong with the lines of the index; empty: nothing."""
        found, count, last = 0, 0, b""
        for line in lines:
            if line < last:
                return f"its line {count + 1} is not in order"
            try:
                found += _sum_of(line)
            except (KeyError, TypeError, ValueError):
                return f"its line {count + 1} is not one of CDXJ"
            last, count = line, count + 1
        if count != self._count:
            return f"it has {count} lines for {self._count} records"
        is_same = (found - self._expected) % _MODULUS == 0
        return "" if is_same else "it names other records than those of its file"


def _sum_of(line: bytes) -> int:
    key, at, told = line.decode().rstrip("\n").split(" ", 2)
    place = jsontext.loads(told.encode())
    if not isinstance(place, dict):
        raise TypeError
    names = ("url", "filename", "offset", "length", "digest")
    is_revisit = place["mime"] == "warc/revisit"
    return _sum(key, at, *(str(place[name]) for name in names), "revisit" if is_revisit else "")


def _sum(*parts: str) -> int:
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big")
