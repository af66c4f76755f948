"""The stages of a pipeline in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlstream.wire.delivered import decode
from pipeline_service.stages.chain import Chain
from pipeline_service.workers.outcomes import outcome_bytes, plan_of


class StageWork:
    """Runs a chain over the records that come; ConfigError if a stage cannot be made."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._chain = Chain(plan_of(plan))

    @property
    def told(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the items, if there is one."""
        return self._chain.schema

    def run(self, value: bytes) -> bytes:
        """The outcome of a record."""
        return outcome_bytes(self._chain.run(decode(value)))
