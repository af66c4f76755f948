"""Output of ``status`` for the data of supervisor and of a process itself."""

from __future__ import annotations

import pytest

from crawlstream.model.process import Process
from crawlstream.model.state import FrontierState
from crawlstream_cli.local.supervisor import ProcessInfo
from crawlstream_cli.machine.status import _ended, _in_words, _RedisState, _state


@pytest.mark.parametrize(
    ("state", "uptime_s", "condition", "shown"),
    [
        ("RUNNING", 90, "ready", "running"),
        ("STARTING", 0, "ready", "running"),
        ("RUNNING", 90, "waiting for kafka", "waiting for kafka"),
        ("RUNNING", 3, "starting", "starting"),
        ("RUNNING", 90, "starting", "does not answer"),
        ("BACKOFF", 0, None, "backoff"),
        ("STOPPING", 90, "ready", "stopping"),
    ],
)
def test_a_process_that_is_of_no_use_does_not_pass_for_running(
    state: str, uptime_s: float, condition: str | None, shown: str
) -> None:
    """A pid says little: a process that waits, restarts again and again, or is mute is marked."""
    pid = None if condition is None else 7
    process = ProcessInfo("crawler-link-1", "crawler", pid, state, uptime_s, started_at=1)
    assert str(_state(process, condition)) == shown


def test_spiders_that_pages_wait_for_are_named() -> None:
    """Spiders without a live crawler; a crawl without queued pages lacks none."""
    counters = FrontierState(
        life=1,
        clock_ms=0,
        rules_known=True,
        crawls=3,
        queued=9,
        delayed=1,
        held=0,
        workers=1,
        outbox=0,
        actions=0,
        backlog={"link": {"domains": 2}, "shop": {"domains": 1}, "news": {"domains": 0}},
    )
    heard = [Process(kind="crawler", spider="link"), Process(kind="rest")]
    assert _RedisState(counters, heard, (), ()).lacking == ["shop"]
    assert _in_words(counters).startswith(
        "3 running crawls, 10 pages waiting (1 delayed), 0 in flight at 1 worker"
    )


def test_a_pipeline_that_has_ended_is_shown_with_its_last_run() -> None:
    """Its line has the time of storage, and all faults of the run."""
    run = {"pipeline": "shop", "crawlid": "nightly", "run": 3, "server_time": 940, "ok": None}
    good = {**run, "complete": True, "undelivered": 0}
    assert _ended(good, 1000.0) == (
        "pipeline shop is not running; its last run, nightly (3), was stored 1 min ago"
    )
    bad = {**run, "complete": False, "undelivered": 2, "ok": False}
    assert _ended(bad, 1000.0).endswith(
        "1 min ago: it is incomplete, 2 pages undelivered, its quality was missed; see"
        " `./crawlstream pipeline report shop`"
    )
