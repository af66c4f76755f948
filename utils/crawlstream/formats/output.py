"""A file of pages that has its name only when it is whole."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawlstream.errors import CrawlstreamError
from crawlstream.formats.files import Crawl, Writer, make_writer
from crawlstream.model.delivered import Delivered


class _Noting:
    """A writer that remembers whether it has failed: what it has written is not whole then."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.has_failed = False

    def write(self, value: bytes, page: Delivered) -> None:
        self.has_failed = True
        self._writer.write(value, page)
        self.has_failed = False

    def close(self) -> None:
        self._writer.close()


@contextmanager
def whole_file(path: Path, which: str, crawl: Crawl) -> Iterator[Writer]:
    """A writer of a file; whatever ends the block, the file is whole, with what it had until then.

    While the block lasts it is ``.<name>.unfinished`` beside its place. What is no regular file (a
    device, a pipe) is written to as it is. CrawlstreamError says why nothing can be written.
    """
    try:
        is_special = path.exists() and not stat.S_ISREG(path.stat().st_mode)
        place = path if is_special else path.with_name(f".{path.name}.unfinished")
        path.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            writer = _Noting(make_writer(which, file, crawl))
            try:
                yield writer
            finally:
                if not writer.has_failed:
                    writer.close()
                    file.flush()
                    with contextlib.suppress(OSError):  # Of a pipe, say.
                        os.fsync(file.fileno())
                    if not is_special:
                        place.replace(path)
    except OSError as error:
        raise CrawlstreamError(f"cannot write results to {path}: {error.strerror}") from error
