"""Pipelines that end with their source: the sentence about one that could not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crawlstream.boot.settings import load_settings
from pipeline_service.ending import Goal, Goals, NotStored


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
