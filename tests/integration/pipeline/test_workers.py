"""Workers: real processes that die, hang and grow; what they had at hand is done all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlstream.errors import ConfigError
from crawlstream.wire.delivered import decode
from crawlstream_chaos.processes import freeze
from crawlstream_extract.workers import pool as pools
from crawlstream_extract.workers.job import WorkerLimits
from pipeline_service.spec.stages import ChainPlan, read_stages
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.workers.outside import Outside
from support.pipelines.results import record
from support.waiting import WaitUntil

SHOP = "python:support.pipelines.shop:"
TESTS = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def find_the_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the modules of tests."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


class Workers:
    """A pool, and what it has told."""

    def __init__(self, call: str, **limits: Any) -> None:
        stages = read_stages([{"use": SHOP + call}], "stage", Path())
        asked = WorkerLimits(**{"workers": 2, "timeout_s": 5.0, **limits})
        self.died: Counter[str] = Counter()
        self.pool = Outside(ChainPlan(stages), asked, died=lambda cause: self.died.update([cause]))

    @asynccontextmanager
    async def running(self) -> Any:
        """Open for the length of a block; nothing is left behind."""
        await self.pool.open()
        try:
            yield self
        finally:
            await self.pool.close()
        assert not workers_here(), "a worker is left"

    async def run(self, bodies: Sequence[bytes]) -> Sequence[PageOutcome]:
        """Outcome of pages with these bodies."""
        values = [record(n, body=body) for n, body in enumerate(bodies)]
        return await self.pool.run([(value, decode(value)) for value in values], lambda _: None)


def workers_here() -> Sequence[psutil.Process]:
    """The workers that this process has started and that live."""
    found = psutil.Process().children()
    return [each for each in found if "crawlstream_extract.workers.child" in each.cmdline()]


def tried(trace: Path, order: str = "") -> list[int]:
    """The worker of each attempt at pages with an order, or any."""
    lines = trace.read_text().splitlines() if trace.exists() else []
    return [int(line.split()[1]) for line in lines if order in ("", line.split()[0])]


def told(outcome: PageOutcome) -> str:
    """The order that a page gave, or why it is undelivered."""
    return outcome.reason if outcome.rows is None else str(outcome.rows[0].fields["order"])


async def test_outcomes_are_in_the_order_of_the_pages() -> None:
    """Whichever worker makes them, and however many there are."""
    bodies = [b"%d" % n for n in range(150)]
    async with Workers("by_body", workers=3).running() as workers:
        assert [told(each) for each in await workers.run(bodies)] == [
            str(n) for n in range(len(bodies))
        ]
        assert await workers.run([]) == []
        assert len(await workers.run([b"one"])) == 1
    assert not workers.died


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that has a line for each attempt at a page."""
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    return tmp_path / "trace"


@pytest.mark.parametrize(
    ("order", "reason", "cause", "sentence"),
    [
        ("exit", "stage_killed", "killed", "it has ended with the status 3"),
        ("crash", "stage_killed", "killed", "it was killed by SIGSEGV"),
        ("hang", "stage_timeout", "timeout", "it has not answered within 1 s"),
        ("memory", "stage_killed", "memory", "it needs more than 1024 MiB (memory_mb)"),
    ],
)
async def test_a_record_that_kills_three_workers_is_undelivered(
    order: str, reason: str, cause: str, sentence: str, trace: Path
) -> None:
    """Others in its batch are not, and it is tried three times, no less and no more."""
    bodies = [b"%d" % n for n in range(40)]
    bodies[5] = order.encode()
    async with Workers("by_body", timeout_s=1.0).running() as workers:
        outcomes = await workers.run(bodies)
    expected = [str(n) for n in range(40)]
    expected[5] = reason
    assert [told(each) for each in outcomes] == expected
    assert outcomes[5].errors == [f"3 workers were lost with it; the last one: {sentence}"]
    assert workers.died == {cause: 3}
    pids = tried(trace, order)
    assert len(pids) == len(set(pids)) == 3, "each time by another worker"


async def test_a_worker_that_somebody_kills_is_replaced() -> None:
    """Replaces a worker that was killed, and delivers all pages."""
    async with Workers("by_body", workers=1).running() as workers:
        (first,) = await workers.run([b"a"])
        assert first.rows
        os.kill(first.rows[0].fields["pid"], signal.SIGKILL)
        (second,) = await workers.run([b"b"])
        assert told(second) == "b"
        assert second.rows
        assert second.rows[0].fields["pid"] != first.rows[0].fields["pid"]
    assert workers.died == {"killed": 1}


async def test_a_worker_that_is_frozen_is_replaced() -> None:
    """It has not answered in time."""
    async with Workers("by_body", workers=1, timeout_s=1.0).running() as workers:
        (first,) = await workers.run([b"a"])
        assert first.rows
        freeze(first.rows[0].fields["pid"])
        assert told((await workers.run([b"b"]))[0]) == "b"
    assert workers.died == {"timeout": 1}


async def test_a_worker_is_renewed_after_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources that code of users leaks end with it."""
    monkeypatch.setattr(pools, "RENEWED_AFTER", 10)
    async with Workers("by_body", workers=1).running() as workers:
        pids = []
        for _ in range(3):
            outcomes = await workers.run([b"x"] * 6)
            pids += [each.rows[0].fields["pid"] for each in outcomes if each.rows]
    assert len(pids) == 18
    assert len(set(pids)) == 2
    assert pids[0] == pids[11] != pids[12]
    assert not workers.died


async def test_what_code_of_users_prints_is_no_answer() -> None:
    """It goes to the log."""
    async with Workers("prints").running() as workers:
        assert all(each.rows for each in await workers.run([b"x"] * 5))


async def test_stages_that_cannot_be_loaded_are_told_in_a_sentence() -> None:
    """Reports such stages in a sentence, as without workers."""
    workers = Workers("none")
    with pytest.raises(ConfigError, match=r"stage none: .* has no none"):
        await workers.pool.open()
    assert not workers_here()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_no_worker_outlives_its_parent(
    how: signal.Signals, trace: Path, wait_until: WaitUntil
) -> None:
    """Ends all workers with their parent, also one that hangs in a user's code."""
    program = """
import asyncio, sys
from integration.pipeline.test_workers import Workers
async def main():
    async with Workers("by_body", workers=2, timeout_s=600.0).running() as workers:
        await workers.run([b"hang"] * 2)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    try:
        await wait_until(lambda: len(tried(trace)) == 2)
        pids = tried(trace)
    finally:
        parent.send_signal(how)
        await parent.wait()
    await wait_until(lambda: not any(_is_alive(pid) for pid in pids))


def _is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
