"""CDXJ: the index of a WARC file, by which players find the records of a URL.

A line has the SURT of a URL, its time in 14 digits, and the place of the record as JSON. Lines are
sorted. They are written as text, or in blocks of gzip with an index of the blocks
(``cdxj-gzip-1.0``).
"""

from __future__ import annotations

import gzip
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote_to_bytes

from crawlstream.wire import jsontext
from pipeline_service.formats.any_url import split_any

_IN_MEMORY = 2 * 1024 * 1024
"""Bytes of lines that are sorted at a time; a line of a page has some 300."""
_LINES_OF_A_BLOCK = 300
_WWW = re.compile(r"\Awww\d*\.")
_SLASHES = re.compile(r"/+")
_USUAL_PORTS = frozenset({None, 80, 443})
_DECODED = 10
"""Times that a part of a URL is decoded at most."""
_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace("#", "").replace("%", "")


class CdxjIndex:
    """Lines of WARC files; most of them are in sorted files next to a path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._size = 0
        self._sorted: list[Path] = []

    def add(self, url: str, at: datetime, place: Mapping[str, str]) -> None:
        """Add a record."""
        line = b"%s %s %s\n" % (
            surt(url).encode(),
            at.strftime("%Y%m%d%H%M%S").encode(),
            _json(place),
        )
        self._lines.append(line)
        self._size += len(line)
        if self._size > _IN_MEMORY:
            self._put_aside()

    def write(self, file: BinaryIO) -> None:
        """Write all lines as text."""
        with self._merged() as lines:
            file.writelines(lines)

    def write_blocks(self, data: BinaryIO, blocks: BinaryIO, name: str) -> None:
        """Write all lines to ``data``, a file of this name, and the index of its blocks."""
        blocks.write(b"!meta 0 %s\n" % _json({"format": "cdxj-gzip-1.0", "filename": name}))
        offset = 0
        with self._merged() as lines:
            while block := list(islice(lines, _LINES_OF_A_BLOCK)):
                packed = gzip.compress(b"".join(block), mtime=0)
                place = {"offset": offset, "length": len(packed)}
                blocks.write(b"%s %s\n" % (block[0].partition(b" {")[0], _json(place)))
                data.write(packed)
                offset += len(packed)

    def drop(self) -> None:
        """Remove its files."""
        for path in self._sorted:
            path.unlink(missing_ok=True)

    @contextmanager
    def _merged(self) -> Iterator[Iterator[bytes]]:
        with ExitStack() as files:
            runs: list[Iterable[bytes]] = [files.enter_context(p.open("rb")) for p in self._sorted]
            yield heapq.merge(*runs, sorted(self._lines))

    def _put_aside(self) -> None:
        path = Path(f"{self._path}-{len(self._sorted)}.cdxj")
        with path.open("wb") as file:
            file.writelines(sorted(self._lines))
        self._sorted.append(path)
        self._lines, self._size = [], 0


def surt(url: str) -> str:
    """Return the Sort-friendly URI Reordering Transform of a URL, as players look it up.

    It is lower case, without scheme, credentials and ``www.``; the labels of the host are reversed,
    parameters are sorted, and only characters that need it are percent-encoded. URLs that differ
    in nothing else have one key.
    """
    parts = split_any(url)
    host = _WWW.sub("", parts.hostname or "")
    try:
        port = f":{parts.port}" if parts.port not in _USUAL_PORTS else ""
    except ValueError:
        port = ""
    path = _SLASHES.sub("/", _decoded(parts.path))
    if len(path) > 1:
        path = path.removesuffix("/")
    query = "&".join(sorted(_decoded(parts.query).split("&")))
    labels = ",".join(reversed(host.split(".")))
    return f"{labels}{port}){path or '/'}{'?' if query else ''}{query}"


def _decoded(text: str) -> str:
    """Return a part of a URL in lower case, decoded as often as possible, and encoded once."""
    octets = text.encode("utf-8", "surrogatepass")
    for _ in range(_DECODED):
        octets, before = unquote_to_bytes(octets), octets
        if octets == before:
            break
    return quote(octets, safe=_PLAIN).lower()


def _json(value: Mapping[str, str | int]) -> bytes:
    return jsontext.dumps(value)
