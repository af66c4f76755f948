"""A file of pages that gets its name only when it is whole."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawlstream.errors import CrawlstreamError
from crawlstream.model.delivered import Delivered
from pipeline_service.formats.files import Crawl, PageWriter, make_writer


class _Noting:
    """Writer that records whether it has failed, because its file is not whole then."""

    def __init__(self, writer: PageWriter) -> None:
        self._writer = writer
        self.has_failed = False

    def write(self, value: bytes, page: Delivered) -> None:
        self.has_failed = True
        self._writer.write(value, page)
        self.has_failed = False

    def close(self) -> None:
        self._writer.close()


@contextmanager
def whole_file(path: Path, which: str, crawl: Crawl) -> Iterator[PageWriter]:
    """Provide a writer of a file; after the block, the file is whole, also if an error ended it.

    During the block, the file is named ``.<name>.unfinished`` in the same folder. A path that is
    not a regular file (a device, a pipe) is written to directly. Raise CrawlstreamError with the
    reason if the file cannot be written.
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
                    with contextlib.suppress(OSError):  # For example of a pipe.
                        os.fsync(file.fileno())
                    if not is_special:
                        place.replace(path)
    except OSError as error:
        raise CrawlstreamError(f"cannot write results to {path}: {error.strerror}") from error
