"""States of crawls and what may be done to them: one list each, which scripts and schemas share."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.request import STEERING
from crawlstream.model.run_marks import REMEMBERED
from crawlstream.model.state import CrawlState
from crawlstream.model.statuses import ENDED, UNDER_WAY


def _in_state(state: str) -> CrawlState:
    return CrawlState(
        crawl=CrawlKey("link", "app", "1"),
        run=1,
        state=state,
        started_at=0,
        last_activity=0,
        expires=0,
        admitted=0,
        queued=0,
        delayed=0,
        held=0,
        done=0,
        failed=0,
        redirected=0,
        stopped=0,
        expired=0,
    )


def test_states_are_those_that_the_scripts_write() -> None:
    """States from which the Lua ends a run are open, and those that it ends in are ends."""
    source = (files("crawlstream_frontier") / "lua/includes/crawls.lua").read_text()
    (table,) = re.findall(r"^local ENDINGS = \{(.*)\}", source, re.MULTILINE)
    written = {word: word for word in re.findall(r"'(\w+)'", table)}
    (written["STOPPED"],) = re.findall(r"^local STOPPED = '(\w+)'", source, re.MULTILINE)
    endings = {before: written[after] for before, after in re.findall(r"(\w+) = '?(\w+)", table)}
    assert {*endings, "paused"} == set(UNDER_WAY)
    assert set(endings.values()) == set(ENDED)


@pytest.mark.parametrize("state", [*UNDER_WAY, *ENDED])
def test_a_run_is_under_way_until_it_has_ended(state: str) -> None:
    """A paused run is open, and so is a run that waits for its last pages."""
    assert _in_state(state).is_under_way == (state not in ENDED)


def test_steering_is_what_the_schema_admits_beside_questions() -> None:
    """Every action but ``info`` steers a crawl; Kafka remembers all but a new priority."""
    schema = json.loads((files("crawlstream.wire") / "schema/action.json").read_text())
    assert set(schema["properties"]["action"]["enum"]) - {"info"} == STEERING
    assert STEERING - {"reprioritize"} == REMEMBERED
