"""Hostile documents in workers: memory is limited, and the other pages are stored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from crawlstream.wire.delivered import decode
from crawlstream_extract.workers.job import WorkerLimits
from pipeline_service.spec.stages import ChainPlan, read_stages
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.workers.outside import Outside
from support.hostile.documents import bomb, encrypted, pdf
from support.pipelines.results import record

MUTATIONS = 200
WHOLE = pdf("the first page", "the second page", links=["/more"], title="A lamp")


def told(outcome: PageOutcome) -> str:
    """The reason why a document is undelivered, its error, or its title."""
    if outcome.rows is None:
        return outcome.reason
    (row,) = outcome.rows
    return str(row.fields["document_error"] or row.fields["title"])


async def test_a_hostile_document_costs_no_other_page() -> None:
    """A document of 30 KB that needs too much memory is undelivered; damaged ones are stored."""
    damaged = list(_damaged(random.Random(17)))
    bodies = [WHOLE, bomb(1_000_000), encrypted(), b"", *damaged, WHOLE]
    assert len(bodies[1]) < 30_000
    headers = {"response_headers": {b"Content-Type": [b"application/pdf"]}, "encoding": "binary"}
    values = [record(n, body=body, **headers) for n, body in enumerate(bodies)]
    deaths: list[str] = []
    plan = ChainPlan(read_stages([{"use": "document"}], "stage", Path()))
    pool = Outside(plan, WorkerLimits(workers=2, memory_mb=256), died=deaths.append)
    await pool.open()
    try:
        found = await pool.run([(value, decode(value)) for value in values], lambda _: None)
    finally:
        await pool.close()
    first, hostile, *others, last = map(told, found)
    assert (first, hostile, last) == ("A lamp", "stage_killed", "A lamp")
    assert others[:2] == ["encrypted", "unreadable"]
    assert set(others[2:]) >= {"A lamp", "unreadable"}
    assert all(each.rows for each in [*found[:1], *found[2:]])
    assert len(deaths) == 3


def _damaged(dice: random.Random) -> Iterator[bytes]:
    for _ in range(MUTATIONS):
        made = bytearray(WHOLE)
        for _ in range(dice.randint(1, 6)):
            at, size = dice.randrange(len(made)), dice.randint(1, 40)
            match dice.randrange(4):
                case 0:
                    made[at : at + size] = dice.randbytes(size)
                case 1:
                    del made[at : at + size]
                case 2:
                    made[at:at] = made[dice.randrange(len(made)) :][:size]
                case _:
                    made[at : at + 1] = str(dice.choice([0, 1, 2, 5, 1 << 31, -1])).encode()
        yield bytes(made)
