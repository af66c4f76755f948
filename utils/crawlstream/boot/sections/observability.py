"""Settings of logs, metrics and the files of a local cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from crawlstream.boot.sections.section import Host, Section, new


def _upper_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class ObservabilitySettings(Section):
    """Logs, metrics and files."""

    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper_case)
    ] = "INFO"
    """Minimum level of log messages."""
    log_json: bool | None = None
    """Log as JSON lines; default: yes, unless standard error is a terminal."""
    metrics_base: int = Field(0, validation_alias=new("METRICS_PORT"), ge=0, le=65535)
    """First port of the health and metrics endpoints on this machine; 0 disables them."""
    metrics_host: Host = Field("127.0.0.1", validation_alias=new("METRICS_HOST"))
    """Address of these endpoints. They need no authentication."""
    metrics_offset: int = Field(0, validation_alias=new("METRICS_OFFSET"), ge=0)
    """Offset of this process's port from the first one."""
    traces: str = Field("", validation_alias=new("TRACES"))
    """URL of an OpenTelemetry collector (OTLP over HTTP) for traces of pages; empty: no traces.
    Needs the extra ``traces``."""
    traces_share: float = Field(0.01, validation_alias=new("TRACES_SHARE"), ge=0, le=1)
    """Share of the pages that are traced, unless the request of a seed has a `traceparent`."""
    traces_failures: bool = Field(default=False, validation_alias=new("TRACES_FAILURES"))
    """Also trace each page that has failed, with the spans of its crawler."""
    start_timeout: float = Field(180, validation_alias=new("START_TIMEOUT"), gt=0)
    """Seconds that `up` waits while no part of the cluster comes to a new state."""
    home: str = Field(".crawlstream", validation_alias=new("HOME"))
    """Directory for data, logs, jars and results of a local cluster."""

    @property
    def metrics_port(self) -> int:
        """Port of this process' health and metrics pages; 0: none."""
        return self.metrics_base and self.metrics_base + self.metrics_offset
