"""The SQL of docs/paying.md adds up what sites have charged."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import orjson
import pytest

from crawlstream.model.crawl import CrawlKey
from pipeline_service.__main__ import main
from pipeline_service.spec.config import read
from support.pipelines import writer
from support.pipelines.results import record

DOCS = Path(__file__).parents[3] / "docs" / "paying.md"


def paid(number: int, charged: str | None, site: str = "a.example", crawl: str = "job") -> bytes:
    """A page whose site has charged something, or has only named a price."""
    payment = {"price": "USD 0.01", "charged": charged, "error": None, "purse": "news"}
    key = CrawlKey("link", "app", crawl)
    return record(number, url=f"https://{site}/{number}", crawl=key, payment=payment)


def pages() -> list[bytes]:
    """Pages of two sites and two crawls, and one that speaks of no money."""
    return [
        *(paid(1, "USD 0.01"), paid(2, "USD 0.0025"), paid(3, None), record(4)),
        *(paid(5, "EUR 0.1", "b.example"), paid(6, "USD 2", crawl="other")),
    ]


@pytest.mark.parametrize("which", ["parquet", "jsonl.zst"])
def test_charges_are_added_up_by_crawl_and_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    """Exactly, and each currency apart."""
    text = (
        f'[pipeline.archive]\nsink = {{kind = "files", path = "{tmp_path}", format = "{which}"}}\n'
    )
    (tmp_path / "pipelines.toml").write_text(text)
    asyncio.run(writer.write(read(text, {})["archive"], tmp_path / "spool", pages))
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(tmp_path / "pipelines.toml"))
    (sql,) = re.findall(r'crawlstream query "(.*?)"', DOCS.read_text(), re.DOTALL)
    capsys.readouterr()
    assert main(["query", "--json", "--", sql]) == 0
    rows = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["crawlid"], row["site"], row["currency"], row["pages"]) for row in rows] == [
        ("other", "a.example", "USD", 1),
        ("job", "b.example", "EUR", 1),
        ("job", "a.example", "USD", 2),
    ]
    assert [float(row["charged"]) for row in rows] == [2, 0.1, 0.0125]
