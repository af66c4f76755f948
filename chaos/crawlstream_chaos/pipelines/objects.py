"""An object store for several processes: whole objects, created exclusively on request.

It keeps its objects in a folder, but does not act as a local file system: writes take the same way
as to S3 and similar stores. A file next to its objects makes it fail.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.spec import AbstractFileSystem

ROOT = "OBJECTS_ROOT"
"""The variable that names the folder of all objects."""
_TROUBLE = ".trouble"
TROUBLES = {
    "away": "it answers nobody",
    "full": "it has no room",
    "mute": "what is written takes effect, and the answer is lost",
}


class Objects(AbstractFileSystem):  # type: ignore[misc]
    """``objects://folder/name``, below the folder that OBJECTS_ROOT names."""

    protocol = "objects"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write an object at once; FileExistsError in the mode ``create`` if there is one."""
        _fail_if("away", "full")
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
        _fail_if("mute")

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        """Write a file's content."""
        self.pipe_file(rpath, Path(lpath).read_bytes(), mode=options.get("mode", "overwrite"))

    def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
        """An object's content; FileNotFoundError."""
        _fail_if("away")
        return self._file(path).read_bytes()

    def find(self, path: str, *_: Any, **__: Any) -> list[str]:
        """Names of all objects below a path."""
        _fail_if("away")
        root = self._file("")
        found = (each for each in self._file(path).rglob("*") if each.is_file())
        return sorted(str(e.relative_to(root)) for e in found if not e.name.endswith(".part"))

    def rm_file(self, path: str) -> None:
        """Remove an object; FileNotFoundError."""
        _fail_if("away")
        self._file(path).unlink()

    def _file(self, path: str) -> Path:
        return _root() / str(self._strip_protocol(path))


def register() -> None:
    """Let fsspec know of it."""
    fsspec.register_implementation("objects", Objects, clobber=True)


@contextmanager
def in_trouble(root: Path, how: str) -> Iterator[None]:
    """Let every process that uses the store below ``root`` fail for the length of the block."""
    root.mkdir(parents=True, exist_ok=True)
    (root / _TROUBLE).write_text(how)
    try:
        yield
    finally:
        (root / _TROUBLE).unlink(missing_ok=True)


def _root() -> Path:
    return Path(os.environ[ROOT])


def _fail_if(*kinds: str) -> None:
    trouble = ""
    with suppress(FileNotFoundError):
        trouble = (_root() / _TROUBLE).read_text()
    if trouble not in kinds:
        return
    if trouble == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise TimeoutError(TROUBLES[trouble])
