"""Spans on their way to a collector; nothing waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial

import pytest

from crawlstream.boot.metrics import total_of
from crawlstream.errors import ConfigError, MissingExtra
from crawlstream.model.process import Process
from crawlstream_chaos.facts.trace_collector import collecting
from crawlstream_traces.context import Span
from crawlstream_traces.metrics import DROPPED, SENT
from crawlstream_traces.sender import BATCH, MOST_WAITING, SpanSender, open_sender
from support.waiting import WaitUntil

PROCESS = Process(kind="crawler", spider="link")


def span(number: int = 0) -> Span:
    """A small span."""
    return Span(
        name="page", trace_id="a" * 32, span_id=f"{number + 1:016x}", start_ns=20, end_ns=10
    )


class Gate:
    """Client of a collector that waits until it is opened, then takes spans or raises an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.is_open = threading.Event()
        self.sent: list[int] = []
        self._error = error

    def send(self, spans: Sequence[Span]) -> bool:
        """Take spans."""
        self.is_open.wait()
        if self._error:
            raise self._error
        self.sent.append(len(spans))
        return True

    def stop(self) -> None:
        """Give up."""
        self.is_open.set()


async def test_spans_reach_a_collector(wait_until: WaitUntil) -> None:
    """Sends spans by OTLP; clocks that differ make no span that ends before it begins."""
    before = total_of(SENT)
    with collecting() as collector:
        sender = open_sender(f"{collector.url}/", PROCESS)
        assert sender is not None
        sender.add(span())
        await wait_until(lambda: collector.spans)
        sender.add(span(1))
        sender.close()
        assert not sender.is_alive()
        assert [(s.service, s.name, s.span_id) for s in collector.spans] == [
            ("crawler", "page", f"{number:016x}") for number in (1, 2)
        ]
        assert {(s.begin, s.end) for s in collector.spans} == {(10, 10)}
    assert total_of(SENT) == before + 2


async def test_a_collector_that_hangs_costs_spans_only(wait_until: WaitUntil) -> None:
    """Keeps a bounded number of spans, drops and counts the rest at once, and sends in batches."""
    before, gate = total_of(DROPPED), Gate()
    sender = SpanSender(gate, linger_s=0)
    sender.start()
    sender.add(span())
    await wait_until(lambda: not sender._waiting)
    for number in range(MOST_WAITING + 7):
        sender.add(span(number))
    assert total_of(DROPPED) == before + 7
    gate.is_open.set()
    await wait_until(lambda: sum(gate.sent) == MOST_WAITING + 1)
    assert max(gate.sent) == BATCH
    sender.close()


def _has_dropped(count: float) -> bool:
    return total_of(DROPPED) == count


@pytest.mark.parametrize("error", [OSError("down"), ValueError("odd")])
async def test_a_collector_that_fails_costs_spans_only(
    wait_until: WaitUntil, error: Exception
) -> None:
    """Counts the spans of a failed batch as dropped, and goes on with the next one."""
    before, gate = total_of(DROPPED), Gate(error)
    gate.is_open.set()
    sender = SpanSender(gate, linger_s=0)
    sender.start()
    for count in (1, 2):
        sender.add(span())
        await wait_until(partial(_has_dropped, before + count))
    sender.close()
    assert not sender.is_alive()


@pytest.mark.parametrize(
    "url", ["collector:4318", "grpc://a:4317", "http://u:p@a", "http://a/?key=1", "http://a b"]
)
def test_a_collector_is_a_plain_url(url: str) -> None:
    """Refuses any other value, and says where a key belongs."""
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_HEADERS"):
        open_sender(url, PROCESS)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says how to install it."""
    monkeypatch.delitem(sys.modules, "crawlstream_traces.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match="install traces"):
        open_sender("http://127.0.0.1:1", PROCESS)


def test_a_crawler_names_a_wrong_collector_at_its_start() -> None:
    """Exits with 2 and one sentence, without a stack trace."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "crawling", "--check", "link"],
        env={**os.environ, "CRAWLSTREAM_TRACES": "collector:4318"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "CRAWLSTREAM_TRACES: must be a URL" in done.stderr


def test_off_imports_nothing() -> None:
    """Without a collector no process imports the exporter, or starts a thread for spans.

    redis-py imports the SDK wherever it is installed, and leaves its exporters alone.
    """
    code = (
        "import sys, crawling.runtime.worker, kafka_monitor.process, rest_service.process\n"
        "from crawlstream.model.process import Process\n"
        "from crawlstream_traces.sender import open_sender\n"
        "assert open_sender('', Process(kind='crawler')) is None\n"
        "loaded = ('crawlstream_traces.spans', 'opentelemetry.exporter', 'opentelemetry.proto')\n"
        "print([name for name in sys.modules if name.startswith(loaded)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
