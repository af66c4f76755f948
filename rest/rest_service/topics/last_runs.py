"""The last run that each pipeline has stored, also of pipelines that no process runs now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from crawlstream.bus.connect import Kafka
from crawlstream.errors import KafkaUnavailable
from rest_service.runs.deliveries import Run, last_runs

_KNOWN_FOR_S = 15.0
_WITHIN_S = 3.0


@dataclass(slots=True)
class LastRuns:
    """Reads the latest events, every 15 s at most; what it knows stays while Kafka is away."""

    _runs: Mapping[str, Run] = field(default_factory=dict)
    _due: float = 0.0
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, kafka: Kafka, topic: str) -> Mapping[str, Run]:
        """Return the last run by the pipeline's name."""
        async with self._reading:
            if time.monotonic() >= self._due:
                with suppress(KafkaUnavailable):
                    self._runs = {**self._runs, **await last_runs(kafka, topic, most_s=_WITHIN_S)}
                self._due = time.monotonic() + _KNOWN_FOR_S
            return self._runs
