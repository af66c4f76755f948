"""What commands show, where somebody looks and where a program reads."""

from __future__ import annotations

import pytest
from rich.table import Table

from crawlstream.cli.console import stdout_console


def _shown(capsys: pytest.CaptureFixture[str]) -> str:
    table = Table("id", "why", box=None)
    table.add_row("demo.incoming-1-0", "a sentence that is long " * 20)
    stdout_console().print(table)
    return capsys.readouterr().out


def test_a_pipe_is_given_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `grep` reads is neither folded nor cut; who names a width has it kept."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(_shown(capsys).splitlines()) == 2
    monkeypatch.setenv("COLUMNS", "80")
    assert len(_shown(capsys).splitlines()) > 2
