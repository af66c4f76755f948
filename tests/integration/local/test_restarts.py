"""supervisord's treatment of processes that do not live."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from crawlstream_cli.local.supervised import PAUSES_S
from support.waiting import wait_until

_LIFE_S = 1.2
"""Longer than startsecs, so that supervisor takes it for running."""
_NAMES = ("fails", "vanishes", "killed")
_CONF = """
[supervisord]
nodaemon = true
pidfile = supervisord.pid
logfile = supervisord.log

[program:fails]
command = sh -c "date +%%s.%%N >> fails; sleep 1.2; exit 2"
startretries = 100

[program:vanishes]
command = sh -c "date +%%s.%%N >> vanishes"
startretries = 100

[program:killed]
command = sh -c "date +%%s.%%N >> killed; sleep 1.2; kill -9 $$"
startretries = 100
"""


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Where each of three programs notes its starts."""
    (tmp_path / "conf").write_text(_CONF)
    argv = (sys.executable, "-m", "crawlstream_cli.local.supervised", "-c", "conf")
    with subprocess.Popen(argv, cwd=tmp_path, env=os.environ) as supervisord:
        yield {name: tmp_path / name for name in _NAMES}
        supervisord.terminate()


def _gaps(file: Path) -> list[float]:
    times = [float(line) for line in file.read_text().split()] if file.exists() else []
    return [later - earlier for earlier, later in pairwise(times)]


async def test_what_fails_again_and_again_is_started_ever_later(starts: dict[str, Path]) -> None:
    """Restarts a killed process at once, and one that fails repeatedly ever later."""
    await wait_until(lambda: all(len(_gaps(starts[name])) >= 4 for name in _NAMES), timeout_s=60)
    for name, life_s in (("fails", _LIFE_S), ("vanishes", 0)):
        gaps = _gaps(starts[name])[:4]
        assert gaps[0] < life_s + 3
        assert all(gap > life_s + pause for gap, pause in zip(gaps, PAUSES_S, strict=False)), gaps
    assert max(_gaps(starts["killed"])) < _LIFE_S + 3
