"""Stages in a thread of the pipeline itself: no process between, and none to be guarded by."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.model.delivered import Delivered
from crawlstream_extract.workers.pool import Beat
from pipeline_service.spec.stages import ChainPlan
from pipeline_service.stages.chain import Chain, PageOutcome
from pipeline_service.workers.outcomes import outcome_bytes, outcome_of

STAGE_KILLED = "stage_killed"


class Inside:
    """Runs the stages in one thread."""

    def __init__(self, plan: ChainPlan) -> None:
        self._plan = plan
        self._chain: Chain | None = None

    async def open(self) -> Mapping[str, Any] | None:
        """Load them; answers the JSON Schema of the items. ConfigError."""
        self._chain = await asyncio.to_thread(Chain, self._plan)
        return self._chain.schema

    async def close(self) -> None:
        """Nothing is left to be ended."""

    async def run(
        self, pages: Sequence[tuple[bytes, Delivered]], beat: Beat
    ) -> Sequence[PageOutcome]:
        """The outcome of each page, in their order."""
        outcomes = []
        for _, page in pages:
            outcomes.append(await asyncio.to_thread(self._outcome, page))
            beat(0)
        return outcomes

    def _outcome(self, page: Delivered) -> PageOutcome:
        assert self._chain is not None
        try:
            # By the same way as a worker's, so that the same is stored.
            return outcome_of(outcome_bytes(self._chain.run(page)))
        except MemoryError:
            return PageOutcome(reason=STAGE_KILLED, errors=["the process is out of memory"])
