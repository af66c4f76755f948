"""An object store for several processes: whole objects, created exclusively on request.

It keeps its objects in a folder, but is none of this machine's file systems: what is written to it
takes the way that objects take to S3 and its like.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import fsspec
from fsspec.spec import AbstractFileSystem

_ROOT = "OBJECTS_ROOT"


class Objects(AbstractFileSystem):  # type: ignore[misc]
    """``objects://folder/name``, below the folder that OBJECTS_ROOT names."""

    protocol = "objects"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write an object at once; FileExistsError in the mode ``create`` if there is one."""
        final = self._file(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        unfinished = final.with_name(f"{final.name}.{uuid.uuid4().hex}.part")
        unfinished.write_bytes(value)
        try:
            if mode == "create":
                final.hardlink_to(unfinished)
            else:
                unfinished.replace(final)
        finally:
            unfinished.unlink(missing_ok=True)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        """Write a file's content."""
        self.pipe_file(rpath, Path(lpath).read_bytes(), mode=options.get("mode", "overwrite"))

    def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
        """An object's content; FileNotFoundError."""
        return self._file(path).read_bytes()

    def find(self, path: str, *_: Any, **__: Any) -> list[str]:
        """Names of all objects below a path."""
        root = self._file("")
        found = (each for each in self._file(path).rglob("*") if each.is_file())
        return sorted(str(e.relative_to(root)) for e in found if not e.name.endswith(".part"))

    def rm_file(self, path: str) -> None:
        """Remove an object; FileNotFoundError."""
        self._file(path).unlink()

    def _file(self, path: str) -> Path:
        return Path(os.environ[_ROOT]) / str(self._strip_protocol(path))


def register() -> None:
    """Let fsspec know of it."""
    fsspec.register_implementation("objects", Objects, clobber=True)
