"""Output of commands, on a terminal and for a program."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import orjson
import pytest
from rich.table import Table

from crawlstream.boot.printable import printable
from crawlstream_cli.common import console
from crawlstream_cli.common.console import print_line, stdout_console


def _shown(capsys: pytest.CaptureFixture[str]) -> str:
    table = Table("id", "why", box=None)
    table.add_row("demo.incoming-1-0", "a sentence that is long " * 20)
    stdout_console().print(table)
    return capsys.readouterr().out


def test_a_pipe_is_given_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text for `grep` is neither folded nor cut; a width that is named is kept."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(_shown(capsys).splitlines()) == 2
    monkeypatch.setenv("COLUMNS", "80")
    assert len(_shown(capsys).splitlines()) > 2


@pytest.mark.parametrize(
    "text", ["\x1b]52;c;cm0=\x1b\\\x1b[1A\x1b[2K", "\x9b2J", "\u202eexe", "\x7f"]
)
def test_a_terminal_is_given_nothing_to_obey(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of others are shown with their controls written out, in sentences and in tables."""
    table = Table("why", box=None)
    table.add_row(text)
    stdout_console(markup=False).print(table)
    stdout_console(markup=False).print(text)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_line(text)
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x9b\x7f\u202e")
    assert shown.count(printable(text)) == 3


def test_a_program_is_given_the_bytes_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Passes the text unchanged to a pipe; only terminals get escapes."""
    print_line("\x1b[2K\x9b")
    assert capsys.readouterr().out == "\x1b[2K\x9b\n"


def test_what_is_written_out_is_still_the_same_json() -> None:
    """A record that is copied from a terminal is the record."""
    record = {"url": "http://a/\x1b\x7f\x9b\u202e\u2028\n\t", "lines": 2}
    text = orjson.dumps(record, option=orjson.OPT_INDENT_2).decode()
    assert printable(text) != text
    assert orjson.loads(printable(text)) == record
    assert printable("\ud800 ä 𝄞\n\t") == "\\ud800 ä 𝄞\n\t"


def test_commands_write_by_the_console_only() -> None:
    """No command writes past the place where text is made printable."""
    place = Path(inspect.getfile(console))
    others = set(place.parents[1].rglob("*.py")) - {place}
    bypass = re.compile(r"sys\.stdout\.write|(?<!\w)Console\(|(?<![\w.])print\(")
    found = {path.name for path in others if bypass.search(path.read_text(encoding="utf-8"))}
    # Two print the version and the table of verbs, also where nothing is installed; the others what
    # tools of a developer say, by names of their own.
    assert found == {"app.py", "checks.py", "tests.py", "verbs.py"}
