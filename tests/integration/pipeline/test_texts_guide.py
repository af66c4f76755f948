"""The guide to texts: its pipeline and its queries, on pages that a crawl has left on the topic."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from support.forks.program import run
from support.hostile.documents import encrypted, pdf
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import record

GUIDE = (Path(__file__).parents[3] / "docs" / "texts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
ENGLISH = [f"The lamp number {n} gives light to the whole room." for n in range(40)]
GERMAN = [f"Die Lampe Nummer {n} gibt dem ganzen Zimmer Licht." for n in range(40)]
FRENCH = [f"La lampe éclaire toute la pièce, et elle est faite de laiton {n}." for n in range(40)]
PDF = {"response_headers": {b"Content-Type": [b"application/pdf"]}, "encoding": "binary"}


def page(number: int, name: str, sentences: list[str]) -> bytes:
    """The record of a page."""
    body = f"<main><p>{' '.join(sentences)}</main>".encode()
    return record(number, url=f"http://127.0.0.7/{name}", body=body)


async def test_the_guide_to_texts_works(cluster: PipelineCluster) -> None:
    """Each command of it: copies are found, whatever menu stands around them."""
    by_kind = dict(BLOCKS)
    cluster.file.write_text(by_kind["toml"])
    (cluster.home / "near.sql").write_text(by_kind["sql"])
    cluster.feed(
        [
            page(1, "a", ENGLISH),
            page(2, "b", ["New!", *ENGLISH]),
            page(3, "c", ENGLISH[:20]),
            page(4, "d", GERMAN),
            page(5, "e", FRENCH),
            record(6, url="http://127.0.0.7/f.pdf", body=pdf("\n".join(ENGLISH)), **PDF),
            record(7, url="http://127.0.0.7/g.pdf", body=encrypted(), **PDF),
        ]
    )
    install, check, store, languages, near, made = COMMANDS
    assert install == "./crawlstream install pipeline extract query"
    assert "run by 1 worker process: markdown, document, language" in typed(cluster, check)
    typed(cluster, store)
    assert lines(typed(cluster, languages)) == ["language pages", "de 1", "en 4"]
    assert lines(typed(cluster, near)) == [
        "url near",
        "http://127.0.0.7/b http://127.0.0.7/a",
        "http://127.0.0.7/f.pdf http://127.0.0.7/a",
    ]
    assert lines(typed(cluster, made)) == ["made", "1 words=3 bands=16 of="]


def typed(cluster: PipelineCluster, command: str) -> str:
    """Run a command of the guide in the folder of its files, and return what it prints."""
    script, *words = shlex.split(command.replace("$(cat near.sql)", dict(BLOCKS)["sql"]))
    assert script == "./crawlstream"
    env = {**cluster.env, "CRAWLSTREAM_PIPELINES": str(cluster.file)}
    done = run("crawlstream_cli", *words, env=env, folder=cluster.home, timeout_s=180)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def lines(table: str) -> list[str]:
    """Lines of a table, with one blank between its cells."""
    return [" ".join(line.split()) for line in table.splitlines()]
