"""The page of pipelines has the table of columns."""

from __future__ import annotations

from pathlib import Path

from pipeline_service.formats.columns import COLUMNS

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"


def test_the_page_has_every_column() -> None:
    """Name, type and meaning, in the order of the file."""
    rows = [f"| `{each.name}` | {each.kind} | {each.meaning} |" for each in COLUMNS]
    table = "\n".join(["| Column | Type | Meaning |", "|---|---|---|", *rows])
    assert table in PAGE.read_text(encoding="utf-8")
