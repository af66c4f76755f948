"""A collector of OpenTelemetry that takes spans over HTTP and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class SeenSpan(NamedTuple):
    """A span as it was sent; ids are hex."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    begin: int
    end: int
    error: str
    attributes: Mapping[str, Any]


class Collector:
    """Spans that have come so far."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[SeenSpan] = []
        self.bytes = b""
        """All bodies as they were sent, one after the other."""

    def settings(self, share: float) -> Mapping[str, str]:
        """Settings of processes that send it their spans."""
        return {"CRAWLSTREAM_TRACES": self.url, "CRAWLSTREAM_TRACES_SHARE": str(share)}

    def of(self, trace_id: str, name: str = "") -> list[SeenSpan]:
        """Return the spans of a trace, perhaps of one name, in the order of their begin."""
        spans = [span for span in self.spans if span.trace_id == trace_id]
        return sorted((s for s in spans if name in {"", s.name}), key=lambda span: span.begin)

    def forget(self) -> None:
        """Let go of all spans."""
        self.spans, self.bytes = [], b""

    def take(self, body: bytes) -> None:
        """Decode what an exporter has sent."""
        self.bytes += body
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _values(sent.resource.attributes)["service.name"]
            for scope in sent.scope_spans:
                self.spans += [_seen(service, span) for span in scope.spans]


def _seen(service: str, span: Any) -> SeenSpan:
    return SeenSpan(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.message,
        _values(span.attributes),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector for the length of the block."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.path == "/v1/traces"
            if is_known:
                collector.take(body)
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    collector = Collector(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
