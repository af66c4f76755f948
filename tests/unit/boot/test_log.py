"""Log lines: one JSON object each, from any source and with any content."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys

import pytest
from kafka.errors import Cancelled

from crawlstream.boot.log import _Seldom

_SPEAK = """
import logging, warnings
import structlog
from kafka.errors import Cancelled
from crawlstream.boot.log import configure
from crawlstream.boot.settings import load_settings
configure(load_settings(log_json=True), "tester")
log = structlog.get_logger()
log.info("poll", records=3, odd=object, binary=b"\\xff", lone="\\ud800")
log.debug("poll", outcome="unseen")
logging.getLogger("kafka.coordinator").warning("lost %s", "node 1")
logging.getLogger("kafka.coordinator").warning("lost %s", "node 2")
logging.getLogger("kafka.coordinator").info("chatter")
warnings.warn("old call")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("put")
"""


def test_every_line_is_json_with_the_same_head() -> None:
    """Events, a library's warning, a Python warning and a traceback share one shape."""
    done = subprocess.run([sys.executable, "-c", _SPEAK], capture_output=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"].split("\n")[0][:9] for line in lines[:2]] == ["poll", "lost node"]
    assert "old call" in lines[2]["event"]
    assert "ZeroDivisionError" in lines[3]["exception"]
    assert len(lines) == 4
    assert {line["process"] for line in lines} == {"tester"}
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in lines)


def test_a_client_repeats_itself_once_a_minute() -> None:
    """Messages that a client repeats with every attempt do not fill the log; others pass."""
    now = 0.0
    seldom = _Seldom(clock=lambda: now)

    def is_heard(name: str, template: str, *values: object) -> bool:
        record = logging.LogRecord(name, logging.WARNING, "", 0, template, values, None)
        return seldom.filter(record)

    assert is_heard("kafka.cluster", "no node %s", 1)
    assert not is_heard("kafka.cluster", "no node %s", 2)
    assert is_heard("kafka.cluster", "something else")
    assert is_heard("kazoo.client", "no node %s", 1)
    assert not is_heard("kafka.coordinator", "group_id is None: disabling auto-commit.")
    assert not is_heard("kafka.cluster", "Metadata refresh: failed %s", Cancelled())
    closed = RuntimeError("NetworkSelector closed!")
    assert not is_heard("kafka.cluster", "Metadata refresh: failed %s", closed)
    assert not is_heard("kafka.coordinator.range", "No partition metadata for topic %s", "a.b")
    assert is_heard("kafka.cluster", "Metadata refresh: failed %s", "as it should not")
    assert all(is_heard("scrapy.core", "page %s", number) for number in range(3))
    now = 61.0
    assert is_heard("kafka.cluster", "no node %s", 3)


_WARN = """
import logging
import structlog
from crawlstream.boot.log import configure_for_command
configure_for_command()
log = structlog.get_logger()
for _ in range(3):
    log.warning("publish", outcome="waiting", error="Kafka does not answer")
log.info("publish", outcome="unseen")
logging.getLogger("kazoo.client").warning("chatter")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("put", outcome="failed")
"""


def test_a_command_warns_in_sentences() -> None:
    """An operator reads the problem once, without stamps, traces and messages of libraries."""
    done = subprocess.run(
        [sys.executable, "-c", _WARN], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stderr.splitlines() == [
        "crawlstream: Kafka does not answer (waiting)",
        "crawlstream: division by zero (failed)",
    ]


_SHOW = """
import logging, structlog
from crawlstream.boot.log import configure
from crawlstream.boot.settings import load_settings
settings = load_settings(log_json=%s, redis_password="hunter2-of-redis")
configure(settings, "tester")
log = structlog.get_logger()
log.info("poll", url="\\x1b]0;owned\\x07\\x9b2J\\nfalse line")
logging.getLogger("others").warning("said \\x1b[2J\\x9b")
def route(record):
    secret = settings.redis_password
    raise ValueError("\\x1b[2J")
try:
    route({"cookie": "cookie-of-a-person"})
except ValueError:
    log.exception("route")
"""


@pytest.mark.parametrize("as_json", ["True", "False"])
def test_logs_hold_no_secrets_and_nothing_that_a_terminal_obeys(as_json: str) -> None:
    """Logs no values of variables and no control characters of clients, for any reader."""
    done = subprocess.run(
        [sys.executable, "-c", _SHOW % as_json], capture_output=True, check=True, encoding="utf-8"
    )
    said = re.sub("\x1b\\[[0-9;]*m", "", done.stderr)  # The renderer's own colours.
    assert "ValueError" in said
    assert said.count("owned") == 1
    assert "hunter2" not in said
    assert "cookie-of-a-person" not in said
    assert not set(said) & set("\x1b\x07\x9b")
    assert not any(line.startswith("false line") for line in said.splitlines())
