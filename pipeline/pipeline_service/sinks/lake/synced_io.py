"""Metadata of a local Iceberg table: on the disk before the catalog names it.

The catalog's database syncs which metadata is current; the library writes the metadata itself
without. After a loss of power the catalog could name a file that is empty, and the whole table
would be unreadable.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from pyiceberg.io import OutputStream
from pyiceberg.io.fsspec import FsspecFileIO, FsspecOutputFile

_SCHEME = "file"


class SyncedFileIO(FsspecFileIO):
    """Files of this machine; the library finds this class by its name."""

    def new_output(self, location: str) -> FsspecOutputFile:
        """Return a file to be written."""
        return _SyncedFile(location, self.get_fs(_SCHEME))


class _SyncedFile(FsspecOutputFile):
    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002  the library's
        """Open it for writing."""
        path = Path(self.location.removeprefix(f"{_SCHEME}://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        return _SyncedWriter(path, "wb" if overwrite else "xb")


class _SyncedWriter(io.BufferedWriter):
    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(io.FileIO(path, mode))
        self._folder = path.parent

    def close(self) -> None:
        """Sync the file and its name to the disk."""
        if self.closed:
            return
        self.flush()
        os.fsync(self.fileno())
        super().close()
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
