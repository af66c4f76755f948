"""The queries of docs/quality.md find equal pages in the files of a pipeline."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import orjson
import pytest

from pipeline_service.__main__ import main
from pipeline_service.spec.config import read
from support.pipelines import writer
from support.pipelines.results import record

PAGE = Path(__file__).parents[3] / "docs" / "quality.md"
LIST = "http://127.0.0.7/list"
PAGES: list[dict[str, str | None]] = [
    {"url": f"{LIST}?sort=price", "text_signature": "t1:1", "canonical": LIST},
    {"url": f"{LIST}?sort=name", "text_signature": "t1:1", "canonical": LIST},
    {"url": LIST, "text_signature": "t1:1"},
    {"url": "http://127.0.0.7/about", "text_signature": "t1:2"},
    {"url": "http://127.0.0.7/a.png"},
    {"url": "http://127.0.0.7/b.png"},
]


def _records() -> list[bytes]:
    return [record(number, **page) for number, page in enumerate(PAGES)]


def test_the_queries_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts of several pages, one page of each text, and canonical URLs of several pages."""
    sink = f'kind = "files", path = "{tmp_path / "files"}", format = "parquet"'
    text = f"[pipeline.archive]\nsink = {{{sink}}}\n"
    (tmp_path / "pipelines.toml").write_text(text)
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(tmp_path / "pipelines.toml"))
    asyncio.run(writer.write(read(text, {})["archive"], tmp_path / "spool", _records))
    found = []
    capsys.readouterr()
    for sql in re.findall(r'crawlstream query "(.+)"', PAGE.read_text(encoding="utf-8")):
        assert main(["query", "--json", "--", sql]) == 0
        found.append([orjson.loads(row) for row in capsys.readouterr().out.splitlines()])
    equal, single, canonical = found
    assert equal == [{"text_signature": "t1:1", "pages": 3, "example": LIST}]
    assert [row["url"] for row in single] == [
        f"http://127.0.0.7/{path}" for path in ("a.png", "about", "b.png", "list")
    ]
    assert canonical == [{"canonical": LIST, "pages": 2}]
