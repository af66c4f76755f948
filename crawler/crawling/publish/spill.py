"""Links that Redis has no room for, on their way into Kafka: see `frontier.overflow`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import structlog

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.publish.publisher import GivenUp, Publisher
from crawlstream.boot.failpoints import failpoint
from crawlstream.model.effects import Release, Settle
from crawlstream_frontier.worker.session import WorkerSession

log = structlog.get_logger()


class Spiller:
    """Writes the links of a page to Kafka, then lets the page settle without them."""

    def __init__(
        self,
        session: WorkerSession,
        publisher: Publisher,
        leases: Leases,
        tasks: Tasks,
    ) -> None:
        self._session = session
        self._publisher = publisher
        self._leases = leases
        self._tasks = tasks

    def takes(self, page: Page) -> bool:
        """Return whether Redis has no room for the links of a page, as far as is known."""
        return self._leases.of(page.lease.partition).is_crowded

    def begin(self, page: Page, settle: Settle) -> None:
        """Spill in a task of its own; the page counts as held until its settle is reported."""
        self._tasks.spawn(self._spill(page, settle))

    async def _spill(self, page: Page, settle: Settle) -> None:
        spills = self._session.spill(settle)
        if not spills:
            # Another worker has the page, so it is unknown what its links inherit. If this worker
            # leases it again (Redis is an older copy), it must not end without its links.
            log.warning("spill", outcome="released", token=settle.token)
            self._leases.spilled(page, Release(token=page.token, sent_ms=page.sent_ms))
            return
        try:
            refused = await self._publisher.spill([spill.value for spill in spills])
        except GivenUp as error:
            # The worker is about to end; its page will be fetched again.
            log.warning("spill", outcome="given_back", error=str(error))
            return
        failpoint("after_spill")
        spilled = {spill.chunk: spill.links for spill in spills if spill.value not in refused}
        too_large = sum(spill.links for spill in spills) - sum(spilled.values())
        filtered = Counter(settle.filtered) + Counter(too_large=too_large)
        log.info("spill", token=settle.token, records=len(spilled), links=sum(spilled.values()))
        self._leases.spilled(page, replace(settle, links=(), spilled=spilled, filtered=filtered))
