"""Finished spans on their way to the collector: nothing waits for them, and they may be lost."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from crawlstream.errors import ConfigError, MissingExtra
from crawlstream.model.process import Process
from crawlstream_traces.context import Span
from crawlstream_traces.metrics import DROPPED, SENT

if TYPE_CHECKING:
    from crawlstream_traces.spans import OtlpExporter

MOST_WAITING = 2048
"""Maximum number of spans that wait to be sent; further ones are dropped."""
BATCH = 512
LINGER_S = 1.0
SEND_TIMEOUT_S = 10.0
LAST_WORDS_S = 2.0
"""Seconds to send the last spans at the end of the process."""

_COLLECTOR = re.compile(r"(https?://[^/?#@\s]+)(/[^?#\s]*)?")
_PATH = "/v1/traces"

log = structlog.get_logger()


class Exporter(Protocol):
    """Client of a collector: as ``spans.OtlpExporter``."""

    def send(self, spans: Sequence[Span]) -> bool:
        """Return whether the collector has taken spans; blocks."""

    def stop(self) -> None:
        """Cancel the request in progress; from any thread."""


class SpanSender(threading.Thread):
    """Sends spans in batches, on its own thread; counts and drops those that it cannot send."""

    def __init__(self, exporter: Exporter, *, linger_s: float = LINGER_S) -> None:
        super().__init__(name="spans", daemon=True)
        self._exporter = exporter
        self._linger_s = linger_s
        self._waiting: deque[Span] = deque()
        self._news, self._full, self._stopping = (threading.Event() for _ in range(3))
        self._is_failing = False

    def add(self, *spans: Span) -> None:
        """Take finished spans, all or none; never blocks."""
        if len(self._waiting) + len(spans) > MOST_WAITING:
            DROPPED.inc(len(spans))
            return
        self._waiting.extend(spans)
        self._news.set()
        if len(self._waiting) >= BATCH:
            self._full.set()

    def run(self) -> None:
        """Send queued spans until ``close``."""
        while not self._stopping.is_set():
            self._news.wait()
            self._news.clear()
            self._full.wait(self._linger_s)
            self._full.clear()
            while self._waiting:
                self._send()

    def close(self) -> None:
        """Send queued spans within LAST_WORDS_S; the others are lost."""
        self._stopping.set()
        self._full.set()
        self._news.set()
        self.join(LAST_WORDS_S)
        self._exporter.stop()

    def _send(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        try:
            is_taken, why = self._exporter.send(batch), "it does not answer, or refuses"
        except Exception as error:  # noqa: BLE001  the next batch may fare better
            is_taken, why = False, repr(error)
        (SENT if is_taken else DROPPED).inc(len(batch))
        if not is_taken and not self._is_failing:
            log.warning("trace", outcome="dropped", spans=len(batch), error=f"collector: {why}")
        self._is_failing = not is_taken


def open_sender(collector: str, process: Process) -> SpanSender | None:
    """Return a running sender to the collector at a URL; None without a URL: traces are off.

    ConfigError for an invalid URL; MissingExtra.
    """
    if not collector:
        return None
    url, exporter = _endpoint(collector), _exporter()
    resource = {
        "service.namespace": "crawlstream",
        "service.name": process.kind,
        "service.instance.id": process.name,
        "service.version": process.version,
        "host.name": process.host,
    }
    sender = SpanSender(exporter(url, resource, SEND_TIMEOUT_S))
    sender.start()
    return sender


def check_collector(collector: str) -> None:
    """Check that `open_sender` would succeed; ConfigError, MissingExtra."""
    if collector:
        _endpoint(collector)
        _exporter()


def _endpoint(collector: str) -> str:
    found = _COLLECTOR.fullmatch(collector)
    if found is None:
        raise ConfigError(
            "CRAWLSTREAM_TRACES: must be a URL like http://collector:4318, without user and query:"
            " OTEL_EXPORTER_OTLP_HEADERS sends a key"
        )
    return found[1] + (_PATH if found[2] in {None, "/"} else found[2])


def _exporter() -> type[OtlpExporter]:
    try:
        from crawlstream_traces.spans import OtlpExporter  # noqa: PLC0415  an extra, slow to import
    except ModuleNotFoundError as error:
        raise MissingExtra("CRAWLSTREAM_TRACES", error.name, "traces") from error
    return OtlpExporter
