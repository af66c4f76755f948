"""Commands that have started servers of their own, and are ended while these run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from support.waiting import wait_until

SUPERVISORD = "crawlstream_cli.local.supervised"


def _begun_by(pid: int) -> Sequence[psutil.Process]:
    """All that a command has started, directly or not."""
    return psutil.Process(pid).children(recursive=True)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _says(process: psutil.Process, what: str) -> bool:
    try:
        return any(what in word for word in process.cmdline())
    except psutil.Error:
        return False


def _folders_of_benchmarks(folder: Path) -> Sequence[Path]:
    return list(folder.glob("crawlstream-bench-*"))


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (["bench", "put"], "redis-server"),
        (["demo"], SUPERVISORD),
        (["chaos", "--pages", "50", "--report", os.devnull], SUPERVISORD),
    ],
    ids=["bench", "demo", "chaos"],
)
async def test_a_term_in_the_background_leaves_nothing_running(
    tmp_path: Path, command: Sequence[str], begins: str
) -> None:
    """Stops all that the command has started before it ends itself, where a shell ignores INT."""
    ended = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crawlstream_cli", *command),
        env=os.environ | {"CRAWLSTREAM_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        await wait_until(
            lambda: any(_says(each, begins) for each in _begun_by(ended.pid)), timeout_s=240
        )
        begun = _begun_by(ended.pid)
        ended.terminate()
        assert await ended.wait() == 128 + signal.SIGTERM
    finally:
        if ended.returncode is None:
            ended.kill()
    assert not [each for each in begun if _runs(each)]
    assert not _folders_of_benchmarks(tmp_path)
