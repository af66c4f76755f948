"""Reserved pages and dropped bodies in the accounts of runs, as the endings count them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import record

RESERVED: dict[str, Any] = {"rights": {"purpose": "train-ai", "reserved": True}}
NO_BODY: dict[str, Any] = {"body": b"", "body_size": 9, "digest": "sha256:x"}
PAGES = [
    record(1),
    record(2, rights={"purpose": "train-ai", "reserved": False}),
    record(3, **RESERVED),
    record(4, **RESERVED, **NO_BODY, dropped="reserved"),
    record(5, **RESERVED, **NO_BODY, dropped="noindex"),
    record(6, **NO_BODY, dropped="noindex"),
]
STAGE = 'workers = 0\nstage = [{use = "where", status = ["404"]}]'


@pytest.mark.parametrize(
    ("kind", "more"),
    [("files", ""), ("files", STAGE), ("sql", 'respect = ["reserved"]')],
    ids=["all", "a stage filters", "the pipeline filters"],
)
def test_an_account_counts_pages_as_the_ending_does(
    cluster: PipelineCluster, kind: str, more: str
) -> None:
    """Counts pages like the ending, filtered ones included and repeats once."""
    sinks = {
        "files": f'path = "{cluster.out}"\nformat = "jsonl"\nmax_age = "1h"',
        "sql": f'url = "sqlite:///{cluster.home}/pages.db"',
    }
    cluster.describe_sink(f'kind = "{kind}"\n{sinks[kind]}', more)
    cluster.feed([*PAGES, PAGES[3], PAGES[5]])
    cluster.end_run(done=len(PAGES))
    done = cluster.command("run", "--until-end")
    assert done.returncode == 0, done.stderr
    (event,) = cluster.deliveries()
    (row,) = map(orjson.loads, cluster.command("report", "archive", "--json").stdout.splitlines())
    for told in (event, row):
        assert (told["read"], told["repeats"], told["complete"]) == (8, 2, True)
        assert (told["reserved"], told["dropped"]) == (3, {"noindex": 2, "reserved": 1})
    headings, shown = cluster.command("report", "archive").stdout.splitlines()[:2]
    values = dict(zip(headings.split(), shown.split(), strict=True))
    assert (values["dropped"], values["reserved"]) == ("3", "3")


def test_an_account_without_such_pages_is_as_before(cluster: PipelineCluster) -> None:
    """Fields of nothing are absent."""
    cluster.describe()
    cluster.feed(PAGES[:2])
    cluster.end_run(done=2)
    assert cluster.command("run", "--until-end").returncode == 0
    (event,) = cluster.deliveries()
    assert event["complete"]
    assert not {"dropped", "reserved"} & event.keys()
    assert "reserved" not in cluster.command("report", "archive").stdout
