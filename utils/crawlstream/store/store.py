"""Objects in a folder: whole or absent, and created exclusively where that matters."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from crawlstream.errors import ConfigError, MissingExtra, Unavailable

_PROOF = "_log/.exclusive-"
_MARK = "_log/.folder"
_UNFINISHED = ".unfinished"
_READ = "cannot read"


class StoreUnavailable(Unavailable):
    """The store does not carry out a request now; the work waits for it."""


class Store:
    """Folder at a URL; names are relative to it, with ``/`` between their parts."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")
        self._is_local = isinstance(filesystem, LocalFileSystem)
        self._mark: bytes | None = None
        """Content of `_MARK` in the pinned folder; None: the folder is not pinned."""

    @classmethod
    def at(cls, url: str) -> Store:
        """Return the store at a URL or path; raise ConfigError if fsspec cannot write there."""
        try:
            # By default, instances and their caches of folder listings are shared.
            return cls(*url_to_fs(url, use_listings_cache=False, skip_instance_cache=True))
        except ImportError as error:
            if url.startswith(("s3:", "s3a:")):
                raise MissingExtra(repr(url), "s3fs", "pipeline") from error
            raise ConfigError(f"{url!r} cannot be used: {error}") from error
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{url!r} cannot be used: {error}") from error

    @property
    def is_local(self) -> bool:
        """Return whether it is a folder of this machine."""
        return self._is_local

    @property
    def filesystem(self) -> Any:
        """Return the file system of fsspec, for libraries that read through it."""
        return self._filesystem

    def url(self, name: str) -> str:
        """Return the URL of an object, for its readers."""
        return str(self._filesystem.unstrip_protocol(self._path(name)))

    def pin(self) -> None:
        """Refuse to write if the folder is later replaced by another; raise StoreUnavailable.

        A disk that is no longer mounted leaves an empty folder: nothing is written there.
        """
        if self._is_local and self._mark is None:
            self.create(_MARK, uuid.uuid4().hex.encode())
            self._mark = self.get(_MARK)

    @property
    def is_new(self) -> bool:
        """Return whether it is a local folder that was never pinned; raise StoreUnavailable."""
        return self._is_local and self.get(_MARK) is None

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; return False if the name exists. Raise StoreUnavailable.

        If the answer of a call was lost, its repetition returns False: read the existing object.
        """
        with self._asked(f"cannot create {name}"):
            self._check_mark()
            if not self._is_local:
                return self._create_remotely(name, data)
            with self._unfinished(name) as file:
                _write(file, data)
                try:
                    final = Path(self._path(name))
                    final.hardlink_to(file)
                except FileExistsError:
                    return False
                _sync_folders(final.parent, Path(self._folder))
                return True

    def put(self, name: str, data: bytes | Path) -> None:
        """Create or replace an object by bytes or a file's content; raise StoreUnavailable."""
        with self._asked(f"cannot write {name}"):
            self._check_mark()
            if self._is_local:
                with self._unfinished(name) as file:
                    _write(file, data)
                    file.replace(self._path(name))
                _sync_folders(Path(self._path(name)).parent, Path(self._folder))
            elif isinstance(data, Path):
                self._filesystem.put_file(str(data), self._path(name))
            else:
                self._filesystem.pipe_file(self._path(name), data)

    def get(self, name: str) -> bytes | None:
        """Return the content of an object; None if it is missing. Raise StoreUnavailable."""
        with self._asked(f"{_READ} {name}"):
            try:
                return bytes(self._filesystem.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def read(self, name: str, most: int) -> bytes | None:
        """Return the first ``most`` bytes of a file that other programs write; None if missing.

        Also return None if it is not a file, or is a link that leads out of the folder. Raise
        StoreUnavailable.
        """
        path = self._path(name)
        with self._asked(f"{_READ} {name}"):
            if self._is_local:
                real, folder = Path(path).resolve(), Path(self._folder).resolve()
                if not (real.is_file() and real.is_relative_to(folder)):
                    return None
            try:
                return bytes(self._filesystem.cat_file(path, end=most))
            except (FileNotFoundError, IsADirectoryError):
                return None

    def list(self, folder: str = "") -> Sequence[str]:
        """Return the sorted names of all objects in and below a folder; empty if it is missing."""
        path = self._path(folder).rstrip("/")
        with self._asked(f"{_READ} {folder or 'the folder'}"):
            try:
                found = self._filesystem.find(path)
            except FileNotFoundError:
                return []
        begin = len(self._folder) + 1
        names = (str(each)[begin:] for each in found)
        return sorted(name for name in names if not name.endswith(_UNFINISHED))

    def remove(self, name: str) -> None:
        """Remove an object if it exists; raise StoreUnavailable."""
        with self._asked(f"cannot remove {name}"), contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(self._path(name))

    def prove(self) -> None:
        """Create an object twice; raise ConfigError unless the second attempt is refused.

        Raise StoreUnavailable if the store does not answer.
        """
        name = f"{_PROOF}{uuid.uuid4().hex}"
        try:
            is_made = self.create(name, b"first")
            is_replaced = self.create(name, b"second") or self.get(name) != b"first"
        finally:
            self.remove(name)
        if not is_made or is_replaced:
            raise ConfigError(
                f"{self.url('')} cannot create objects exclusively, so two processes could write"
                " the same pages: use a local folder or a store with conditional writes, such as S3"
            )

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _check_mark(self) -> None:
        if self._mark is None:
            return
        path = Path(self._path(_MARK))
        if not path.is_file() or path.read_bytes() != self._mark:
            raise StoreUnavailable(
                f"{self.url('')} is not the folder that it was: is its disk mounted?"
            )

    def _create_remotely(self, name: str, data: bytes) -> bool:
        try:
            self._filesystem.pipe_file(self._path(name), data, mode="create")
        except OSError as error:
            # The library recognizes an existing object by a field that only S3 itself has.
            said = getattr(error.__cause__, "response", {}).get("Error", {})
            if isinstance(error, FileExistsError) or said.get("Code") == "PreconditionFailed":
                return False
            raise
        return True

    @contextmanager
    def _unfinished(self, name: str) -> Iterator[Path]:
        """Provide the path of a temporary file in the same folder; remove it in the end."""
        final = Path(self._path(name))
        final.parent.mkdir(parents=True, exist_ok=True)
        file = final.with_name(f".{uuid.uuid4().hex}{_UNFINISHED}")
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Raise any error of a store as StoreUnavailable, because the work must wait."""
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception as error:
            where = self._filesystem.unstrip_protocol(self._folder)
            said = error.strerror if isinstance(error, OSError) else None
            raise StoreUnavailable(f"{what} in {where}: {said or repr(error):.200}") from error


def _write(file: Path, data: bytes | Path) -> None:
    """Write a file and sync it to the disk."""
    with file.open("xb") as written:
        if isinstance(data, Path):
            with data.open("rb") as source:
                shutil.copyfileobj(source, written, 1 << 20)
        else:
            written.write(data)
        written.flush()
        os.fsync(written.fileno())


def _sync_folders(folder: Path, top: Path) -> None:
    """Sync the names in a folder to the disk, and those in its parents, which may be new."""
    for each in (folder, *folder.parents):
        with contextlib.suppress(PermissionError):
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if each == top.parent:
            break
