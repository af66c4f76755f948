"""The sink of files, in every format, on a disk and in an object store: each page once.

Whoever dies, and wherever: a writer is killed at each step, and others go on with what it left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crawlstream.formats.files import FORMATS
from crawlstream.store.store import Store
from crawlstream.wire import jsontext
from pipeline_service.claims import Chain
from support.pipelines import writer
from support.pipelines.objects import register
from support.pipelines.reading import pages_in
from support.pipelines.results import page_id

STEPS = ("before_claim", "after_claim", "after_put", "after_finish")
STORES = ("file", "objects")
EXPECTED = Counter(page_id(n) for n in range(writer.PAGES))
ACCOUNT = {
    "read": writer.PAGES + 7,
    "delivered": writer.PAGES,
    "repeats": 4,
    "lost": 0,
    "filtered": {"where.status": 1},
    "undelivered": {"unreadable": 2},
}
_PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[2])])


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty folder in a store."""
    monkeypatch.setenv("OBJECTS_ROOT", str(tmp_path / "objects"))
    register()
    return f"file://{tmp_path}/out" if request.param == "file" else "objects://bucket/out"


@pytest.fixture(params=FORMATS)
def which(request: pytest.FixtureRequest) -> str:
    """A format."""
    return str(request.param)


def start(url: str, which: str, spool: Path, failpoint: str = "") -> subprocess.Popen[bytes]:
    """A writer, which dies at a failpoint."""
    return subprocess.Popen(
        [sys.executable, "-m", "support.pipelines.writer", url, which],
        env={
            **os.environ,
            "PYTHONPATH": _PYTHONPATH,
            "SPOOL": str(spool),
            "FAILPOINT": failpoint,
        },
        stdout=subprocess.DEVNULL,
    )


def assert_all_is_there_once(url: str, which: str) -> None:
    """Every page is in one file, no other is, and the account closes."""
    store = Store.at(url)
    found = pages_in(store, which)
    assert Counter(page.id for page in found) == EXPECTED
    end = Chain(store, writer.TOPIC, 0).end()
    assert end.is_finished
    assert end.position == len(writer.values())
    assert end.account.total.as_record() == ACCOUNT
    assert end.account.total.is_closed


def test_a_writer_that_is_killed_is_followed_by_another(url: str, tmp_path: Path) -> None:
    """At each step of a segment, and at each of a later one: nine processes in all."""
    for at in (*(f"{step}:kill:{nth}" for nth in (1, 2) for step in STEPS), ""):
        with start(url, "jsonl", tmp_path / "spool", at) as process:
            assert process.wait() == (-signal.SIGKILL if at else 0), at
    assert_all_is_there_once(url, "jsonl")
    assert not any("unfinished" in name for name in Store.at(url).list())


def test_every_format_is_made_again_under_its_names(url: str, which: str, tmp_path: Path) -> None:
    """A segment that is claimed and half put is the same when another has made it again."""
    with start(url, which, tmp_path / "spool", "after_put:kill:3") as process:
        assert process.wait() == -signal.SIGKILL
    store = Store.at(url)
    before = {name: store.get(name) for name in store.list() if name.endswith(which)}
    with start(url, which, tmp_path / "spool") as process:
        assert process.wait() == 0
    assert before
    assert all(store.get(name) == content for name, content in before.items())
    assert_all_is_there_once(url, which)
    rows = 0
    for name in store.list("_log"):
        if name.endswith(".done.json"):
            told: Any = jsontext.loads(store.get(name) or b"")
            for file, about in told["files"].items():
                assert len(store.get(file) or b"") == about["bytes"]
                rows += about["rows"]
    assert rows == writer.PAGES


@pytest.mark.parametrize("step", STEPS[:3])
def test_a_writer_that_was_frozen_changes_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have done its work meanwhile: it is refused, or writes the same once more."""
    monkeypatch.setenv("OBJECTS_ROOT", str(tmp_path / "objects"))
    register()
    url = "objects://bucket/out"
    with start(url, "jsonl.zst", tmp_path / "spool", f"{step}:stop:2") as frozen:
        deadline = time.monotonic() + 60
        while os.waitpid(frozen.pid, os.WNOHANG | os.WUNTRACED)[0] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with start(url, "jsonl.zst", tmp_path / "spool") as process:
            assert process.wait() == 0
        assert_all_is_there_once(url, "jsonl.zst")
        frozen.send_signal(signal.SIGCONT)
        assert frozen.wait() == 0
    assert_all_is_there_once(url, "jsonl.zst")


def test_two_writers_at_once_have_each_page_once(url: str, tmp_path: Path) -> None:
    """Each claims what it can, and gives way where the other was first."""
    writers = [start(url, "parquet", tmp_path / "spool") for _ in range(2)]
    assert [each.wait() for each in writers] == [0, 0]
    assert_all_is_there_once(url, "parquet")


def test_the_hint_may_be_lost(url: str, tmp_path: Path) -> None:
    """What it says is found by a walk; so it is where it is wrong."""
    for at in ("after_finish:kill:2", ""):
        with start(url, "jsonl", tmp_path / "spool", at) as process:
            process.wait()
        store = Store.at(url)
        (hint,) = (name for name in store.list("_log") if name.endswith("/latest"))
        store.remove(hint)
    assert_all_is_there_once(url, "jsonl")


def test_a_claim_of_other_files_leaves_none_of_them(tmp_path: Path) -> None:
    """A pipeline whose format was changed after a death has its pages in the new one only."""
    url = f"file://{tmp_path}/out"
    with start(url, "jsonl", tmp_path / "spool", "after_put:kill:1") as process:
        process.wait()
    assert len(pages_in(Store.at(url), "jsonl")) > 0
    with start(url, "parquet", tmp_path / "spool") as process:
        assert process.wait() == 0
    assert_all_is_there_once(url, "parquet")
    assert pages_in(Store.at(url), "jsonl") == []
