"""``crawlstream throttle group``: each verb, with a real ZooKeeper."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.app import run

Say = Callable[..., str]
"""Run a command, which ends with this status; return what it printed."""


@pytest.fixture
def say(
    zookeeper_server: RunningServer,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Say:
    """The console of a cluster without rules."""
    monkeypatch.setenv("ZOOKEEPER_HOSTS", f"127.0.0.1:{zookeeper_server.port}")
    monkeypatch.setenv("ZOOKEEPER_ID", fresh_name)

    def said(command: str, status: int = 0) -> str:
        found = run(shlex.split(f"throttle group {command}"))
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.out + printed.err

    return said


def groups(say: Say) -> dict[str, Any]:
    """All groups, as ``list --json`` prints them."""
    found: dict[str, Any] = json.loads(say("list --json"))
    return found


def test_a_group_is_made_changed_listed_and_removed(say: Say) -> None:
    """Members are added once; what a command leaves out stays as it is."""
    assert "there are no throttle rules yet" in say("list", 1)
    say("add hoster a.example b.example --hits 5 --window 2")
    say("add hoster B.example c.example --concurrency 3")
    hoster = groups(say)["hoster"]
    assert hoster["members"] == ["a.example", "b.example", "c.example"]
    assert (hoster["hits"], hoster["window"], hoster["concurrency"]) == (5, 2, 3)
    say("add other d.example --hits 1 --window 1")
    say("rm hoster a.example c.example")
    assert "b.example" in (shown := say("list"))
    assert "a.example" not in shown
    say("rm hoster")
    assert list(groups(say)) == ["other"]
    say("rm other")
    assert say("list") == "There are no groups.\n"


def test_what_cannot_be_is_refused_and_changes_nothing(say: Say) -> None:
    """Unknown groups and members, and names that no host has."""
    say("add hoster a.example --hits 5 --window 2")
    before = groups(say)
    assert "there is no group another" in say("rm another", 1)
    assert "the group hoster has no member b.example" in say("rm hoster b.example", 1)
    assert "not a host" in say("add hoster 'a b' --hits 7", 1)
    assert groups(say) == before
