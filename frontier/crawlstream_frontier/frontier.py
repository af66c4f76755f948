"""The frontier in one Redis, or one partition of it: a part for each of its callers."""

from __future__ import annotations

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream_frontier.egress.handshakes import Handshakes
from crawlstream_frontier.egress.proxy_book import ProxyBook
from crawlstream_frontier.egress.proxy_pools import ProxyPools
from crawlstream_frontier.egress.purses import Purses
from crawlstream_frontier.inspector import Inspector
from crawlstream_frontier.intake import FrontierIntake
from crawlstream_frontier.maintenance import FrontierLimits, FrontierMaintenance
from crawlstream_frontier.overflow import Overflow
from crawlstream_frontier.partition_calls.contexts import Contexts
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from crawlstream_frontier.partition_calls.partition_intake import PartitionIntake
from crawlstream_frontier.positions import Positions
from crawlstream_frontier.queries import FrontierQueries
from crawlstream_frontier.schedules import Schedules
from crawlstream_frontier.scrapes.door import Door
from crawlstream_frontier.scrapes.waiting_urls import WaitingPages
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.shelves.stocking import Stocking
from crawlstream_frontier.throttle_rules import ThrottleRules
from crawlstream_frontier.worker.person_store import PersonVerdicts
from crawlstream_frontier.worker.session import WorkerSession
from crawlstream_frontier.worker.sketch_store import SketchStore


class Frontier:
    """Opens the parts of one frontier over one client. One instance per process."""

    def __init__(
        self,
        redis: Redis,
        keys: FrontierKeys,
        limits: FrontierLimits | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """``limits`` are the limits of maintenance; None: the defaults.

        ``shelf`` stores the middle of long bands; None: Redis stores it.
        """
        limits = limits or FrontierLimits()
        self.scripts = Scripts(redis, keys)
        self.intake = FrontierIntake(self.scripts)
        self.positions = Positions(self.scripts)
        self.overflow = Overflow(self.scripts)
        self.coordinator = Coordinator(self.scripts)
        self.reading = PartitionIntake(self.scripts)
        self.contexts = Contexts(self.scripts)
        self.maintenance = FrontierMaintenance(self.scripts, limits)
        self.rules = ThrottleRules(self.scripts)
        self.pools = ProxyPools(self.scripts)
        self.book = ProxyBook(self.scripts)
        self.handshakes = Handshakes(self.scripts)
        self.purses = Purses(self.scripts)
        self.door = Door(self.scripts)
        self.queries = FrontierQueries(self.scripts)
        self.stocking = Stocking(self.scripts, shelf, shelve_from=limits.shelve_from)
        self.inspector = Inspector(self.scripts, self.stocking)
        self.waiting = WaitingPages(self.scripts, self.stocking)
        self.schedules = Schedules(self.scripts)
        self.sketches = SketchStore(self.scripts)
        self.person_verdicts = PersonVerdicts(self.scripts)

    def session(self, worker: str, spiderid: str, *, group: str = "") -> WorkerSession:
        """Return the session of a worker of this name; ``group`` is its egress group."""
        return WorkerSession(self.scripts, worker, spiderid, group=group)
