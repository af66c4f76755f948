"""Objects in a folder: whole or absent, and created by one process only where that matters."""

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

from crawlstream.errors import ConfigError, Unavailable

_PROOF = "_log/.exclusive-"
_UNFINISHED = ".unfinished"
_READ = "cannot read"


class StoreUnavailable(Unavailable):
    """A store does not do what it is asked for now; the work waits for it."""


class Store:
    """A folder at a URL; names are relative to it, with ``/`` between their parts."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")
        self._is_local = isinstance(filesystem, LocalFileSystem)

    @classmethod
    def at(cls, url: str) -> Store:
        """The store at a URL or path; ConfigError where fsspec knows no way to write there."""
        try:
            # Instances are shared by default, and so is what they remember of folders' contents.
            return cls(*url_to_fs(url, use_listings_cache=False, skip_instance_cache=True))
        except ImportError as error:
            raise ConfigError(
                f"{url!r} cannot be used: {error}; the extra [pipeline] of crawlstream has what"
                " s3:// needs"
            ) from error
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{url!r} cannot be used: {error}") from error

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return self._is_local

    def url(self, name: str) -> str:
        """Where an object is, for those who read it."""
        return str(self._filesystem.unstrip_protocol(self._path(name)))

    def create(self, name: str, data: bytes) -> bool:
        """Make an object unless there is one of that name; False if there is. StoreUnavailable.

        A call whose answer was lost is answered False when it is repeated: read what is there.
        """
        with self._asked(f"cannot create {name}"):
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
        """Make an object, or replace it, by bytes or the content of a file. StoreUnavailable."""
        with self._asked(f"cannot write {name}"):
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
        """The content of an object, None if there is none. StoreUnavailable."""
        with self._asked(f"{_READ} {name}"):
            try:
                return bytes(self._filesystem.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def read(self, name: str, most: int) -> bytes | None:
        """The first ``most`` bytes of a file that others write; None if there is none.

        None, too, for what is no file, or is a link that leads out of the folder. StoreUnavailable.
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
        """Names of all objects in a folder and below it, sorted; none if it does not exist."""
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
        """Remove an object if there is one. StoreUnavailable."""
        with self._asked(f"cannot remove {name}"), contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(self._path(name))

    def prove(self) -> None:
        """Create an object twice; ConfigError unless the second one is refused.

        StoreUnavailable if the store does not answer.
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

    def _create_remotely(self, name: str, data: bytes) -> bool:
        try:
            self._filesystem.pipe_file(self._path(name), data, mode="create")
        except FileExistsError:
            return False
        return True

    @contextmanager
    def _unfinished(self, name: str) -> Iterator[Path]:
        """A file beside the one that is to be, which is gone in the end."""
        final = Path(self._path(name))
        final.parent.mkdir(parents=True, exist_ok=True)
        file = final.with_name(f".{uuid.uuid4().hex}{_UNFINISHED}")
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Each store has errors of its own; whatever they say, the work must wait."""
        try:
            yield
        except Exception as error:
            where = self._filesystem.unstrip_protocol(self._folder)
            raise StoreUnavailable(f"{what} in {where}: {error!r:.200}") from error


def _write(file: Path, data: bytes | Path) -> None:
    """Write a file and have it on the disk."""
    with file.open("xb") as written:
        if isinstance(data, Path):
            with data.open("rb") as source:
                shutil.copyfileobj(source, written, 1 << 20)
        else:
            written.write(data)
        written.flush()
        os.fsync(written.fileno())


def _sync_folders(folder: Path, top: Path) -> None:
    """Have a folder's names on the disk, and those of the folders above that may be new."""
    for each in (folder, *folder.parents):
        with contextlib.suppress(PermissionError):
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if each == top.parent:
            break
