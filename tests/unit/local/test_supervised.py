"""supervisord's logs on a disk that is full, and its patience with what does not live."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from supervisor.loggers import Handler, LevelsByName, LogRecord, RotatingFileHandler
from supervisor.process import Subprocess
from supervisor.states import ProcessStates
from supervisor.tests.base import DummyOptions, DummyPConfig

from crawlstream_cli.local.supervised import (
    PAUSES_S,
    YOUNG_S,
    forgive_logs,
    pause_after_failures,
)

_EXIT_2, _SIGKILL, _SIGSEGV = 2 << 8, 9, 11
"""As waitpid reports them."""


@pytest.fixture
def handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RotatingFileHandler:
    """A log as supervisord writes it."""
    for kind, name in ((Handler, "handleError"), (RotatingFileHandler, "emit")):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    forgive_logs()
    made = RotatingFileHandler(str(tmp_path / "some.log"))
    made.setFormat("%(message)s\n")
    return made


def _line(text: str) -> LogRecord:
    return LogRecord(LevelsByName.INFO, text)


def test_what_cannot_be_written_is_left_out(
    handler: RotatingFileHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Continues without a log line that cannot be written, and without its trace."""
    handler.stream.close()
    with Path("/dev/full").open("ab", buffering=0) as full:
        handler.stream = full
        errors = io.TextIOWrapper(full, write_through=True)
        monkeypatch.setattr("sys.stderr", errors)
        handler.emit(_line("lost"))
        errors.detach()


def test_a_log_goes_on_after_a_rotation_that_failed(handler: RotatingFileHandler) -> None:
    """A log that a rotation has closed and could not make again is opened with the next line."""
    handler.stream.close()
    handler.emit(_line("lost"))
    handler.emit(_line("kept"))
    handler.stream.close()
    assert Path(handler.baseFilename).read_text() == "kept\n"


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process that supervisord has just started, or so it believes."""
    for name in ("finish", "change_state"):
        monkeypatch.setattr(Subprocess, name, getattr(Subprocess, name))
    monkeypatch.setattr(Subprocess, "failures", 0, raising=False)
    pause_after_failures()
    config = DummyPConfig(DummyOptions(), "it", "/bin/it", startsecs=1, startretries=100)
    return Subprocess(config)


def _ends(process: Any, status: int, *, after_s: float) -> float | None:
    """Seconds until it is started again, None if at once."""
    process.laststart = time.time() - after_s
    process.state = ProcessStates.STARTING if after_s < 1 else ProcessStates.RUNNING
    process.finish(7, status)
    if process.state == ProcessStates.EXITED:
        return None
    assert process.state == ProcessStates.BACKOFF
    assert process.backoff <= process.config.startretries, "it would be given up"
    return float(process.delay - time.time())


@pytest.mark.parametrize(
    ("after_s", "status"), [(0.5, _EXIT_2), (2, _EXIT_2), (2, _SIGSEGV), (9, 0)]
)
def test_failures_in_a_row_are_answered_by_longer_pauses(
    process: Any, after_s: float, status: int
) -> None:
    """Never gives up, and waits half a minute at most, however many failures there are."""
    pauses = [_ends(process, status, after_s=after_s) for _ in range(200)]
    assert pauses[: len(PAUSES_S)] == pytest.approx(PAUSES_S, abs=0.5)
    assert pauses[-1] == pytest.approx(30, abs=0.5)


def test_a_long_life_clears_the_record(process: Any) -> None:
    """Its end does not count as a failure, whatever it ended with."""
    for _ in range(5):
        _ends(process, _EXIT_2, after_s=2)
    assert _ends(process, _EXIT_2, after_s=YOUNG_S + 1) is None
    assert _ends(process, _EXIT_2, after_s=2) == pytest.approx(0, abs=0.5)


def test_what_is_killed_from_outside_is_started_at_once(process: Any) -> None:
    """That says nothing about the process."""
    assert {_ends(process, _SIGKILL, after_s=2) for _ in range(9)} == {None}


def test_what_is_stopped_stays_stopped(process: Any) -> None:
    """Supervisor's own stop does not count as a failure."""
    process.state, process.killing, process.laststart = ProcessStates.STOPPING, True, time.time()
    process.finish(7, 0)
    assert process.state == ProcessStates.STOPPED
