"""Tables on terminals of any width."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from crawlstream_cli.common.columns import TableColumn, cell, fitting, print_columns
from crawlstream_cli.common.console import PrintableConsole

COLUMNS = (
    TableColumn(name="crawl", cells=[cell("3858cc4d635e"), cell("c1")]),
    TableColumn(name="app", cells=[cell("my[b]app"), cell("x")], spare=1),
    TableColumn(name="run", cells=[cell(1), cell(22)], spare=2, justify="right"),
    TableColumn(
        name="state", cells=[cell("waiting: no crawler of shop"), cell("done")], narrowest=8
    ),
)


def printed(width: int) -> list[str]:
    """The lines of the table on a terminal of that number of characters."""
    out = StringIO()
    print_columns(PrintableConsole(file=out, width=width), COLUMNS)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "left_out"), [(80, []), (33, ["run"]), (30, ["run", "app"]), (5, ["run", "app"])]
)
def test_what_can_be_spared_makes_room_first(width: int, left_out: list[str]) -> None:
    """The most dispensable column goes first; what a table is about stays."""
    shown, without = fitting(COLUMNS, width)
    assert without == left_out
    assert [column.name for column in shown] == [
        column.name for column in COLUMNS if column.name not in left_out
    ]


def test_a_table_fits_its_terminal_and_says_what_is_missing() -> None:
    """Ids are never broken; long texts are wrapped; texts of others are not markup."""
    assert printed(80) == [
        "crawl        app      run state",
        "3858cc4d635e my[b]app   1 waiting: no crawler of shop",
        "c1           x         22 done",
    ]
    narrow = printed(30)
    assert max(map(len, narrow)) <= 30
    assert narrow[1].startswith("3858cc4d635e waiting: no")
    assert narrow[-1] == "No room for: run, app."


def test_what_a_terminal_would_obey_is_written_out() -> None:
    """Names come from clients."""
    out = StringIO()
    columns = [TableColumn(name="crawl", cells=[cell("\x1b[2Jgone")])]
    print_columns(Console(file=out, width=80), columns)
    assert "\x1b" not in out.getvalue()
    assert "gone" in out.getvalue()
