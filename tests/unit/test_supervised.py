"""supervisord's logs on a disk that is full."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from supervisor.loggers import Handler, LevelsByName, LogRecord, RotatingFileHandler

from crawlstream.cli.supervised import forgive_logs


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
    """Neither the line nor the trace of its failure, which would go to the same disk, is fatal."""
    handler.stream.close()
    with Path("/dev/full").open("ab", buffering=0) as full:
        handler.stream = full
        errors = io.TextIOWrapper(full, write_through=True)
        monkeypatch.setattr("sys.stderr", errors)
        handler.emit(_line("lost"))
        errors.detach()


def test_a_log_goes_on_after_a_rotation_that_failed(handler: RotatingFileHandler) -> None:
    """What a rotation has closed and could not make anew is opened with the next line."""
    handler.stream.close()
    handler.emit(_line("lost"))
    handler.emit(_line("kept"))
    handler.stream.close()
    assert Path(handler.baseFilename).read_text() == "kept\n"
