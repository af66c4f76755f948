"""A pipeline that really breaks a law is found by the auditor, from what it has left in its store.

Each runs with others that keep the law, and is killed or frozen where that matters.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.broken_pipeline import BREAKS, BREAKS_OF_TABLES, values
from crawlstream_chaos.facts.facts import Facts, FedCrawl, TopicRecord
from crawlstream_chaos.laws.pipeline_stores import LAWS
from crawlstream_chaos.pipelines.store_reader import StoreReader
from crawlstream_chaos.pipelines.table_reader import TableReader
from support.waiting import WaitUntil

NEEDS_AN_EVENT = ("a delivery is reported",)
"""Runs have no endings here."""
CAUGHT = {
    "commit-first": "each page is stored once",
    "put-first": "segments follow each other",
    "claim-anyway": "segments follow each other",
    "drop-nul": "each page is stored once",
}
FROZEN_AT = {"put-first": "before_put:stop:2"}
OF_FILES, OF_TABLES = "jsonl.zst", "delta"


def start(
    folder: Path, which: str = OF_FILES, *, segment: int, **env: str
) -> subprocess.Popen[bytes]:
    """A pipeline that writes the topic."""
    return subprocess.Popen(
        [sys.executable, "-m", "chaos.broken_pipeline", str(folder / "out"), which],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPOOL": str(folder / "spool"),
            "SEGMENT": str(segment),
            **env,
        },
        stdout=subprocess.DEVNULL,
    )


def broken_laws(folder: Path, which: str = OF_FILES) -> set[str]:
    """Return the violations that the auditor finds in store and topic."""
    told = [_told(value) for value in values()]
    pages = [
        TopicRecord(topic="crawled_firehose", key=None, value=v, partition=0, offset=n, at=0)
        for n, v in enumerate(told)
        if v is not None
    ]
    places = [f"t-0-{n}" for n, value in enumerate(told) if value is None]
    reader = StoreReader("p", folder / "out" / "p" / "edition=1", statuses=range(200, 201))
    if which == OF_TABLES:
        reader = TableReader("p", folder / "out", statuses=range(200, 201))
    facts = Facts(
        fed=[FedCrawl(crawlid="job", delivered={})],
        records=pages,
        stores=[reader.read({0: len(told)})],
        unreadable=places,
        undelivered=frozenset(f"p:1:{place}" for place in places),
    )
    return {name for name, law in LAWS.items() if name not in NEEDS_AN_EVENT and list(law(facts))}


def _told(value: bytes) -> Any:
    """A result; None where it is none."""
    try:
        told = orjson.loads(value)
    except ValueError:
        return None
    return told if "id" in told else None


async def write_beside_one_that_is_frozen(
    folder: Path, wait_until: WaitUntil, name: str = "", which: str = OF_FILES
) -> None:
    """A pipeline freezes at a segment; another one writes all in longer ones; both continue."""
    of_tables = "before_commit:stop:2" if which == OF_TABLES else "before_claim:stop:2"
    at = FROZEN_AT.get(name, of_tables)
    with start(folder, which, segment=6, FAILPOINT=at, BREAK=name) as frozen:
        await wait_until(lambda: os.waitpid(frozen.pid, os.WNOHANG | os.WUNTRACED)[0])
        with start(folder, which, segment=20) as other:
            assert other.wait() == 0
        frozen.send_signal(signal.SIGCONT)
        frozen.wait()


async def write_after_one_that_is_killed(folder: Path, name: str = "") -> None:
    """A pipeline dies with a segment half done, and another one continues."""
    with start(folder, segment=20, FAILPOINT="before_claim:kill:2", BREAK=name) as killed:
        assert killed.wait() == -signal.SIGKILL
    with start(folder, segment=20, BREAK=name) as other:
        assert other.wait() == 0


async def test_whoever_keeps_to_them_breaks_no_law(tmp_path: Path, wait_until: WaitUntil) -> None:
    """Pipelines run for the same time, without a break."""
    await write_beside_one_that_is_frozen(tmp_path / "frozen", wait_until)
    assert broken_laws(tmp_path / "frozen") == set()
    await write_after_one_that_is_killed(tmp_path / "killed")
    assert broken_laws(tmp_path / "killed") == set()
    await write_beside_one_that_is_frozen(tmp_path / "table", wait_until, "", OF_TABLES)
    assert broken_laws(tmp_path / "table", OF_TABLES) == set()


@pytest.mark.parametrize("name", BREAKS)
async def test_a_pipeline_that_breaks_a_law_is_caught(
    name: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """The auditor names the law that it breaks."""
    if name in {"put-first", "claim-anyway"}:
        await write_beside_one_that_is_frozen(tmp_path, wait_until, name)
    else:
        await write_after_one_that_is_killed(tmp_path, name)
    assert CAUGHT[name] in broken_laws(tmp_path)


@pytest.mark.parametrize("name", BREAKS_OF_TABLES)
async def test_a_pipeline_that_breaks_a_law_of_tables_is_caught(
    name: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """The auditor reads the table as its log has it."""
    await write_beside_one_that_is_frozen(tmp_path, wait_until, name, OF_TABLES)
    assert "each page is stored once" in broken_laws(tmp_path, OF_TABLES)
