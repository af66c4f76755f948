"""The kit for tests of plugins, as far as it needs no server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crawlstream.errors import InvalidRequest, SetupError
from crawlstream.plugins import (
    Command,
    Context,
    Handler,
    PendingAction,
    Record,
    Reply,
    Schema,
    Seed,
)
from crawlstream_frontier.testing import answer, handle
from support.documented import install_example_plugin

ASKED = {"count": "my-app"}


class Count(Handler):
    """A kind of request for the action below."""

    name, rank = "count", 150
    schema = Schema(
        {
            "type": "object",
            "required": ["count"],
            "properties": {"count": {"type": "string"}, "loud": {"default": False}},
        }
    )

    async def handle(self, request: Any, record: Record) -> Command:
        """The request as it is."""
        return self.command(request, record)


class Visit(Handler):
    """A kind of request that is a seed."""

    name, rank = "visit", 50
    schema = Schema({"type": "object", "required": ["visit"], "properties": {"visit": {}}})

    async def handle(self, request: Any, record: Record) -> Seed:
        """The seed of a crawl request."""
        fields = {"url": request["visit"], "appid": "my-app", "crawlid": "c", "maxdepth": 2}
        return self.seed(fields, record)


class Late(Visit):
    """Handler that ranks behind the built-in kinds, and accepts their records."""

    rank = 500


class Several(Visit):
    """Takes a request for several seeds."""

    async def handle(self, request: Any, record: Record) -> Any:
        """Two effects."""
        return [await super().handle(request, record)] * 2


class Counted:
    """Counts the crawls."""

    name = "count"

    def __init__(self, context: Context) -> None:
        self.frontier = context.frontier

    async def answer(self, action: PendingAction) -> Reply:
        """How many there are."""
        crawls = await self.frontier.crawls(appid=json.loads(action.request)["count"])
        return Reply.json("my-app", {"crawls": len(crawls)})


class Silent(Counted):
    """Forgets to answer."""

    async def answer(self, action: PendingAction) -> Any:
        """Nothing."""


class Misnamed(Counted):
    """Waits for other commands."""

    name = "counted"


def test_the_documented_tests_pass_as_written(tmp_path: Path) -> None:
    """Runs the documented tests in the folder of the plugin, without any server."""
    install_example_plugin(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pinger.py"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_a_handler_gets_what_its_schema_fills_in() -> None:
    """Defaults are there, and the effect has the place of the record."""
    effect = handle(Count, ASKED, offset=7)
    assert isinstance(effect, Command)
    assert (effect.name, effect.offset) == ("count", 7)
    assert json.loads(effect.request) == {"count": "my-app", "loud": False}


def test_what_is_no_effect_is_named() -> None:
    """Names a value that is not an effect, and the possible ones, as the cluster does."""
    with pytest.raises(TypeError, match=r"Several.handle returned \[Seed.*has one effect"):
        handle(Several, {"visit": "http://a.example"})


def test_a_seed_is_that_of_a_crawl_request() -> None:
    """Checked like one that was fed: its URL, and the fields of the request."""
    effect = handle(Visit, {"visit": "http://A.example"})
    assert isinstance(effect, Seed)
    assert (effect.domain, effect.crawl.crawlid) == ("a.example", "c")
    assert (effect.profile.maxdepth, effect.profile.seed_url) == (2, "http://a.example/")
    with pytest.raises(InvalidRequest, match="file"):
        handle(Visit, {"visit": "file:///etc/passwd"})
    with pytest.raises(InvalidRequest, match=r"\$.url: must be string"):
        handle(Visit, {"visit": 1})


def test_a_record_that_would_be_refused_is_refused() -> None:
    """Refuses a record by its bytes, its schema, or because a built-in kind comes first."""
    with pytest.raises(InvalidRequest, match="not JSON"):
        handle(Count, b"{")
    with pytest.raises(InvalidRequest, match=r"\$.count: must be string"):
        handle(Count, {"count": 1})
    both = {"visit": "x", "action": "info", "appid": "my-app", "uuid": "u", "spiderid": "link"}
    assert isinstance(handle(Late, {"visit": "http://a.example/"}), Seed)
    taken = {name: value for name, value in both.items() if name != "visit"}
    with pytest.raises(InvalidRequest, match="required field"):
        handle(Late, taken)


class Greedy(Visit):
    """Takes whatever has an appid, behind the built-in kinds."""

    rank = 500
    schema = Schema({"type": "object", "required": ["appid"]})


def test_a_record_of_a_built_in_kind_does_not_reach_a_handler_behind_it() -> None:
    """Passes no record of a built-in kind to a later handler, whatever its schema says."""
    info = {"action": "info", "appid": "my-app", "uuid": "u", "spiderid": "link"}
    with pytest.raises(InvalidRequest, match="built-in kind 'action', whose rank 200 is lower"):
        handle(Greedy, info)


async def test_an_action_that_asks_for_a_service_says_what_it_lacks() -> None:
    """Names the field of the context that an action lacks, also in a running loop."""
    with pytest.raises(SetupError, match=r"uses context.frontier.* give redis_url"):
        answer(Counted, handle(Count, ASKED))


def test_what_is_no_answer_is_told() -> None:
    """No command, another name, no reply."""
    command = handle(Count, ASKED)
    with pytest.raises(TypeError, match="answers a Command"):
        answer(Counted, None)
    with pytest.raises(ValueError, match="the command is 'count', the name of the action"):
        answer(Misnamed, command)
    with pytest.raises(TypeError, match="not a Reply"):
        answer(Silent, command)
    with pytest.raises(SetupError, match="give redis_url"):
        answer(Counted, command, before=[handle(Visit, {"visit": "a.example"})])
