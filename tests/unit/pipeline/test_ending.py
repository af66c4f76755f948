"""Pipelines that end with their source: the sentence about one that could not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawlstream.boot.settings import load_settings
from crawlstream.errors import Unavailable
from pipeline_service import ending
from pipeline_service.ending import Goal, Goals, NotStored
from pipeline_service.process import load_pipelines


async def test_a_pipeline_that_ends_early_says_how_much_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records of all partitions are counted; one that has stored all ends without a word."""

    async def same(*_: object) -> None:
        """Learn nothing new of the store."""

    monkeypatch.setattr(Goals, "_ask", same)
    flow: Any = SimpleNamespace(pipeline=SimpleNamespace(name="docs"), broken="")
    goal = Goal(flow, "topic", {0: 40, 1: 1_000, 2: 5}, {0: 7, 2: 9})
    goals = Goals(load_settings(), [goal], {})
    with pytest.raises(NotStored, match=r"^docs has ended with 1,033 records left to store: run "):
        await goals.check()
    goal.stored.update({0: 40, 1: 1_000})
    await goals.check()


async def test_a_missing_store_is_not_awaited_permanently(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command fails and names the store, so that a cron job reports it."""
    monkeypatch.setattr(ending, "GIVES_UP_S", 0.3)
    monkeypatch.setattr(ending, "_ASK_EVERY_S", 0.1)
    monkeypatch.setattr(ending, "_LOOK_EVERY_S", 0.05)
    file = tmp_path / "pipelines.toml"
    file.write_text(
        '[pipeline.docs]\n[pipeline.docs.sink]\nkind = "sql"\nurl = "postgresql://127.0.0.1:1/x"\n'
    )
    settings = load_settings(pipelines=str(file))
    (pipeline,) = load_pipelines(settings, [])
    flow: Any = SimpleNamespace(pipeline=pipeline, broken="", read_up_to={})
    goals = Goals(settings, [Goal(flow, "topic", {0: 40})], {})
    stop = asyncio.Event()
    async with asyncio.timeout(20):
        await goals.watch(stop)
    assert stop.is_set()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
        await goals.check()
