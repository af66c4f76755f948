"""Spans as OpenTelemetry has them; the only module that imports it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from crawlstream_traces.context import Span

_SCOPE = InstrumentationScope("crawlstream")
_KINDS = {"intake": SpanKind.CONSUMER, "page": SpanKind.CONSUMER, "write": SpanKind.CONSUMER}
"""Kinds of spans; others are internal."""
_BELOW_OTHERS = ("intake", "wait", "page", "stage.", "write")
"""Beginnings of the names of spans whose parent is in another process."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """Sends spans to one collector; blocks while it does."""

    def __init__(self, url: str, resource: Mapping[str, str], timeout_s: float) -> None:
        """OpenTelemetry's own variables add headers (``OTEL_EXPORTER_OTLP_HEADERS``) and TLS."""
        # It logs each failed attempt; the sender logs when failures begin and end.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._resource = Resource(resource)
        self._exporter = OTLPSpanExporter(url, timeout=timeout_s)

    def send(self, spans: Sequence[Span]) -> bool:
        """Return whether the collector has taken spans."""
        result = self._exporter.export([self._readable(span) for span in spans])
        return result is SpanExportResult.SUCCESS

    def stop(self) -> None:
        """Cancel the request in progress."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        own = _context(span.trace_id, span.span_id)
        is_remote = span.name.startswith(_BELOW_OTHERS)
        return ReadableSpan(
            span.name,
            own,
            _context(span.trace_id, span.parent_id, is_remote=is_remote)
            if span.parent_id
            else None,
            self._resource,
            span.attributes,
            kind=_KINDS.get(span.name, SpanKind.INTERNAL),
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=min(span.start_ns, span.end_ns),
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


def _context(trace_id: str, span_id: str, *, is_remote: bool = False) -> SpanContext:
    ids = int(trace_id, 16), int(span_id, 16)
    return SpanContext(*ids, is_remote=is_remote, trace_flags=_SAMPLED)
