"""Pipelines of some stages, and their rows of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from crawlstream.wire.delivered import decode
from pipeline_service.records.rows import Shape, StoreRow
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.stages.chain import Chain, PageOutcome
from pipeline_service.workers.outcomes import outcome_bytes, outcome_of
from support.pipelines.results import record

SHOP = b"""<!doctype html><html lang="de"><head><title> A
 shop</title><meta name="Description" content="all of it"><meta name=robots content=noindex>
<link rel="x CANONICAL" href="/canon"><meta property="og:title" content="Og"><meta property="fb:a"
content="b"><script type="application/ld+json">[{"@type": "Product", "n": 1}, 2]</script>
<script type="application/ld+json">{broken</script></head><body><h1>Lamp</h1>
<p class="price">12.5</p><ul><li>one<li>two</ul><style>p {}</style></body></html>"""


def pipeline(stages: str, folder: Path = Path(), more: str = "", which: str = "jsonl") -> Pipeline:
    """Return a pipeline with these stages."""
    sink = f'[pipeline.a.sink]\nkind = "files"\npath = "/x"\nformat = "{which}"'
    return read(f"[pipeline.a]\n{more}\n{stages}\n{sink}", {}, folder)["a"]


def stage(text: str) -> str:
    """A stage of these keys."""
    return f"[[pipeline.a.stage]]\n{text}\n"


def use(*names: str) -> str:
    """Stages without options."""
    return "".join(stage(f'use = "{name}"') for name in names)


def run(described: Pipeline, body: bytes = SHOP, **changes: Any) -> PageOutcome:
    """Return the outcome of a page, encoded and decoded as a worker's answer."""
    value = record(1, body=body, **changes)
    return outcome_of(outcome_bytes(Chain(described.plan).run(decode(value))))


def rows(described: Pipeline, body: bytes = SHOP, **changes: Any) -> list[dict[str, Any]]:
    """The rows of a page as JSON; its Parquet columns say the same of its fields."""
    value = record(1, body=body, **changes)
    chain = Chain(described.plan)
    outcome = outcome_of(outcome_bytes(chain.run(decode(value))))
    assert outcome.rows is not None, outcome
    shape = Shape(described.stage, chain.schema)
    made = [
        StoreRow(decode(value), value, each.fields, each.number, each.errors)
        for each in outcome.rows
    ]
    for row in made:
        for column in shape.columns:
            column.take(row)
    return [orjson.loads(shape.record(row)) for row in made]
