"""JSON lines: the unchanged records, one per line."""

from __future__ import annotations

import gzip
from typing import Any, BinaryIO

import zstandard

from crawlstream.wire import jsontext

_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


class Plain:
    """JSON lines without compression."""

    def __init__(self, file: BinaryIO, *_: object) -> None:
        self._file: Any = file

    def write(self, value: bytes, _: object) -> None:
        """Add a record; a record that is formatted on several lines is joined to one."""
        line = jsontext.dumps(jsontext.loads(value)) if b"\n" in value else value
        self._file.write(line + b"\n")

    def close(self) -> None:
        """Do nothing: nothing is buffered."""


class Gzip(Plain):
    """JSON lines in gzip."""

    def __init__(self, file: BinaryIO, *_: object) -> None:
        # Without name and time, so that equal pages make equal files.
        self._file = gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0)

    def close(self) -> None:
        """End the compressed stream."""
        self._file.close()


class Zstd(Plain):
    """JSON lines in zstd."""

    def __init__(self, file: BinaryIO, *_: object) -> None:
        compressor = zstandard.ZstdCompressor(_ZSTD_LEVEL, write_checksum=True)
        self._file = compressor.stream_writer(file, closefd=False)

    def close(self) -> None:
        """End the compressed stream."""
        self._file.close()
