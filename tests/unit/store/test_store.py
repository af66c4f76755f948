"""A store: objects are whole or absent, and one of two that create the same is refused."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store, StoreUnavailable


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that does not exist yet, on the disk and in an object store."""
    return f"{request.param}://{tmp_path}/{uuid.uuid4().hex}/deep"


def test_an_object_is_created_once(url: str) -> None:
    """The second is refused, and the first stays as it is."""
    store = Store.at(url)
    assert store.create("a/b.json", b"first")
    assert not store.create("a/b.json", b"second")
    assert store.get("a/b.json") == b"first"


def test_an_object_is_put_over_another(url: str, tmp_path: Path) -> None:
    """Replaces an object by bytes, or by the content of a file."""
    store = Store.at(url)
    store.put("x", b"1")
    store.put("x", b"2")
    assert store.get("x") == b"2"
    source = tmp_path / "source"
    source.write_bytes(b"3" * 3_000_000)
    store.put("x", source)
    assert store.get("x") == b"3" * 3_000_000
    assert store.list() == ["x"]


def test_what_is_there_is_listed_by_name(url: str) -> None:
    """Lists a folder with subfolders, sorted; a missing folder is empty."""
    store = Store.at(url)
    assert store.list() == store.list("log") == []
    for name in ("log/2", "log/1", "log/sub/3", "data/4"):
        store.put(name, b"")
    assert store.list("log") == ["log/1", "log/2", "log/sub/3"]
    assert store.list() == ["data/4", "log/1", "log/2", "log/sub/3"]
    store.remove("log/1")
    store.remove("log/1")
    assert store.list("log") == ["log/2", "log/sub/3"]
    assert store.get("log/1") is None


def test_of_many_that_create_one_object_one_succeeds(url: str) -> None:
    """Lets one of many concurrent creators of an object succeed, each with its own store."""
    with ThreadPoolExecutor(8) as pool:
        for n in range(20):
            made = pool.map(lambda who: Store.at(url).create(f"{n}", b"%d" % who), range(8))  # noqa: B023  used at once
            winners = [who for who, is_made in enumerate(made) if is_made]
            assert len(winners) == 1
            assert Store.at(url).get(f"{n}") == b"%d" % winners[0]


def test_a_pinned_folder_is_not_taken_for_another(tmp_path: Path) -> None:
    """A folder whose disk is not mounted stays empty; the disk may come back."""
    folder, away = tmp_path / "disk", tmp_path / "away"
    store = Store.at(str(folder))
    store.pin()
    store.put("x", b"1")
    folder.rename(away)
    for is_there in (False, True):
        if is_there:
            folder.mkdir()
            Store.at(str(folder)).pin()
        before = list(folder.rglob("*"))
        with pytest.raises(StoreUnavailable, match="is its disk mounted"):
            store.put("x", b"2")
        with pytest.raises(StoreUnavailable, match="is its disk mounted"):
            store.create("y", b"2")
        assert list(folder.rglob("*")) == before
    shutil.rmtree(folder)
    away.rename(folder)
    assert store.create("y", b"2")
    assert store.get("x") == b"1"


def test_nothing_unfinished_has_a_name(tmp_path: Path) -> None:
    """A process that is killed in the middle of a put leaves what was there before."""
    store = Store.at(str(tmp_path))
    store.put("x", b"before")
    source = tmp_path.parent / f"{tmp_path.name}.pipe"
    os.mkfifo(source)
    code = (
        "import sys; from pathlib import Path; from crawlstream.store.store import Store;"
        "Store.at(sys.argv[1]).put('x', Path(sys.argv[2]))"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(source)])
    with source.open("wb") as half:
        half.write(b"half of it")
        half.flush()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert store.get("x") == b"before"
    assert store.list() == ["x"]


def test_a_store_proves_that_it_creates_exclusively(url: str) -> None:
    """Checks that the store creates exclusively, and leaves nothing behind."""
    store = Store.at(url)
    store.prove()
    assert store.list() == []


def test_a_store_that_replaces_what_it_should_create_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuses such a store in a sentence that says what to do."""
    store = Store.at(url)

    def replace(name: str, data: bytes) -> bool:
        store.put(name, data)
        return True

    monkeypatch.setattr(store, "create", replace)
    with pytest.raises(ConfigError, match="cannot create objects exclusively"):
        store.prove()


def test_a_file_system_that_does_not_know_the_mode_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some drivers of fsspec accept any keyword, and overwrite."""
    store = Store.at(f"memory://{uuid.uuid4().hex}")
    filesystem: Any = store._filesystem
    plain = filesystem.pipe_file
    monkeypatch.setattr(filesystem, "pipe_file", lambda path, data, **_: plain(path, data))
    with pytest.raises(ConfigError, match="cannot create objects exclusively"):
        store.prove()


def test_a_store_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """A file where the folder should be, as any other error, is reported with name and place."""
    (tmp_path / "folder").write_text("in the way")
    store = Store.at(f"file://{tmp_path}/folder")
    for ask in (lambda: store.put("x", b""), lambda: store.create("x", b"")):
        with pytest.raises(StoreUnavailable, match=r"x in file://.*/folder"):
            ask()


def _create(arguments: tuple[str, int]) -> bool:
    url, number = arguments
    return Store.at(url).create("one", b"%d" % number)


def test_of_many_processes_one_creates(tmp_path: Path) -> None:
    """Lets one of many processes create a file on a shared disk."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        made = pool.map(_create, [(str(tmp_path), number) for number in range(12)])
    assert sum(made) == 1


def test_what_others_write_is_read_as_far_as_it_may_be(url: str) -> None:
    """Its first bytes; nothing where there is none, or no file."""
    store = Store.at(url)
    store.put("a/b.txt", b"12345")
    assert store.read("a/b.txt", 3) == b"123"
    assert store.read("a/b.txt", 9) == b"12345"
    assert store.read("a/c.txt", 9) is None
    assert store.read("a", 9) is None


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    """Reads nothing outside of the folder, by a link or without an end; inner links are fine."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.txt").symlink_to("../secret.txt")
    (folder / "zero.txt").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.txt")
    (folder / "own.txt").write_text("own")
    (folder / "in.txt").symlink_to("own.txt")
    (tmp_path / "link").symlink_to("folder")
    for where in ("folder", "link"):
        store = Store.at(f"file://{tmp_path / where}")
        for name in ("out.txt", "zero.txt", "pipe.txt"):
            assert store.read(name, 9) is None
        assert store.read("in.txt", 9) == b"own"
