"""Lists as CSV: no cell is a formula in anybody's spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest

from rest_service.v2.records import as_csv


@pytest.mark.parametrize("begin", ["", " ", "\t", "\r", "\n", "\xa0", "\ufeff", "\u200b \n"])
@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1", "@x", '=HYPERLINK("x")'),
        *("\uff1d1", "\uff0b1", "\uff0d1", "\uff20x"),
    ],
)
def test_no_cell_is_a_formula(text: str, begin: str) -> None:
    """A spreadsheet shows what a stranger wrote, and does not compute it."""
    hostile = begin + text
    cells = [hostile, 'a"b,c\n', None, 7, -7]
    table = list(csv.reader(io.StringIO(as_csv([cells]).decode(), newline="")))
    assert table[0][1:] == ['a"b,c\n', "", "7", "-7"]
    assert table[0][0].startswith("'")
    assert table[0][0].replace("'", "") == hostile


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("end", ["=1+1", '"=1+1', " +1", "\uff1d1", '"" @x'])
def test_no_cell_is_one_where_others_end_it(separator: str, end: str) -> None:
    """A spreadsheet that separates cells by other characters finds no formula of a stranger's."""
    text = f'http://evil.test/x"{separator}{end}'
    rows = as_csv([[text, text, None], [f"a\n{end}", f'"\r\n{end}']]).decode()
    for row in csv.reader(io.StringIO(rows, newline=""), delimiter=separator):
        assert not [cell for cell in row if cell.strip(' "').startswith(("=", "+", "@", "\uff1d"))]
