"""Output of ``logs`` for the files that the processes of a cluster write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from crawlstream_cli.app import run

PAGE = {
    "outcome": "done",
    "url": "http://127.0.0.6/a",
    "status": 200,
    "links": 3,
    "latency_ms": 7,
    "event": "settle",
    "level": "info",
    "timestamp": "2026-11-22T18:17:55.116134Z",
    "process": "crawler-link",
}
ALARM = {**PAGE, "event": "wait", "outcome": "waiting", "level": "warning", "url": "http://b/"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A crawler's file, whose last line is being written, and a server's."""
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    (tmp_path / "logs").mkdir()
    lines = [json.dumps(PAGE), json.dumps(ALARM), '{"event": "to']
    (tmp_path / "logs" / "crawler-link-1.log").write_text("\n".join(lines))
    (tmp_path / "logs" / "kafka.log").write_text("[2026] INFO started\n[2026] WARN disk is full\n")
    return tmp_path


@pytest.mark.usefixtures("home")
def test_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Local time, process, message; a line that is not an event is shown as it is."""
    assert run(["logs"]) == 0
    page, alarm, *kafka = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\d:17:55 crawler-link-1 done 200 7 ms http://127.0.0.6/a links=3", page)
    assert " crawler-link-1 WARNING wait waiting 200 7 ms http://b/" in alarm
    assert kafka == ["kafka [2026] INFO started", "kafka [2026] WARN disk is full"]


@pytest.mark.usefixtures("home")
def test_lines_of_a_level_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """Selects lines by level before the last ones are taken: older warnings are found."""
    assert run(["logs", "--level", "warning", "-n", "1"]) == 0
    alarm, disk = capsys.readouterr().out.splitlines()
    assert "WARNING wait" in alarm
    assert disk.endswith("disk is full")


@pytest.mark.usefixtures("home")
def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    """An object per line, with the name that `status` knows."""
    assert run(["logs", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[0] == {**PAGE, "process": "crawler-link-1"}
    assert told[2] == {"event": "[2026] INFO started", "process": "kafka"}
