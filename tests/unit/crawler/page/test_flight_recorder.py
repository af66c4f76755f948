"""The flight recorder: what a dead process was doing, told by the next one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from crawling.page.flight_recorder import Crash, FlightRecorder
from support.pages import page_at


def noted(folder: Path) -> str:
    """The token, and its partition, that the only slot holds right now."""
    data = (folder / "link.0").read_bytes()[512:]
    return data[2 : 2 + int.from_bytes(data[:2], "big")].decode()


def die_noting(folder: Path, worker: str, *, on_cpu: bool, partition: int = 0) -> None:
    """Open a recorder in a child process that is killed."""
    child = os.fork()
    if child == 0:
        recorder = FlightRecorder(folder, "link")
        recorder.open(worker)
        if on_cpu:
            page = page_at()
            page.lease = replace(page.lease, partition=partition)
            recorder.note(page)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("token", ["1-1", ""])
def test_the_successor_learns_who_died_and_of_what(tmp_path: Path, token: str) -> None:
    """A kill leaves the worker's name, and the token only if a page was on its CPU."""
    die_noting(tmp_path, "dead", on_cpu=bool(token))
    recorder = FlightRecorder(tmp_path, "link")
    assert recorder.open("new") == [Crash("dead", token)]
    recorder.close()
    assert FlightRecorder(tmp_path, "link").open("next") == []


def test_the_partition_of_a_token_is_told(tmp_path: Path) -> None:
    """A token names a lease of its partition only."""
    die_noting(tmp_path, "dead", on_cpu=True, partition=2)
    recorder = FlightRecorder(tmp_path, "link")
    assert recorder.open("new") == [Crash("dead", "1-1", 2)]
    recorder.close()


def test_living_processes_keep_their_slots(tmp_path: Path) -> None:
    """Processes that share a home never report each other; abandoned slots are all reported."""
    first, second = FlightRecorder(tmp_path, "link"), FlightRecorder(tmp_path, "link")
    assert first.open("a") == second.open("b") == []
    for number in range(2):
        die_noting(tmp_path, f"dead{number}", on_cpu=True)
    third = FlightRecorder(tmp_path, "link")
    assert [crash.worker for crash in third.open("c")] == ["dead1"]
    assert FlightRecorder(tmp_path, "other").open("d") == []


async def test_a_page_is_noted_while_it_runs_and_not_while_it_waits(tmp_path: Path) -> None:
    """Notes only the page on the CPU, across every await of a callback."""
    recorder = FlightRecorder(tmp_path, "link")
    recorder.open("w")
    woken = asyncio.Event()
    seen = []

    async def callback() -> AsyncIterator[int]:
        seen.append(noted(tmp_path))
        await woken.wait()
        seen.append(noted(tmp_path))
        yield 1
        seen.append(noted(tmp_path))

    items = recorder.watched(page_at(), callback())
    step = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert noted(tmp_path) == ""
    woken.set()
    assert await step == 1
    assert noted(tmp_path) == ""
    assert [item async for item in items] == []
    assert seen == ["1-1 0"] * 3
    recorder.close()


async def test_errors_and_cancellation_pass_through(tmp_path: Path) -> None:
    """A callback's errors and arguments arrive as they were; nothing stays noted."""
    recorder = FlightRecorder(tmp_path, "link")
    recorder.open("w")
    told = []

    async def broken() -> AsyncIterator[int]:
        for number in map(int, ["defect"]):
            yield number

    async def waiting() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        yield 1

    with pytest.raises(ValueError, match="defect"):
        await anext(recorder.watched(page_at(), broken()))
    step = asyncio.ensure_future(anext(recorder.watched(page_at(), waiting())))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert told == ["cancelled"]
    assert noted(tmp_path) == ""
    recorder.close()
