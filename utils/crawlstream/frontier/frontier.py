"""The frontier in one Redis, or one partition of it: a part for each of its callers."""

from __future__ import annotations

from redis.asyncio import Redis

from crawlstream.frontier.egress.book import ProxyBook
from crawlstream.frontier.egress.handshakes import Handshakes
from crawlstream.frontier.egress.pools import ProxyPools
from crawlstream.frontier.inspection import Inspector
from crawlstream.frontier.intake import FrontierIntake
from crawlstream.frontier.maintenance import FrontierLimits, FrontierMaintenance
from crawlstream.frontier.overflow import Overflow
from crawlstream.frontier.partitions.contexts import Contexts
from crawlstream.frontier.partitions.home import Home
from crawlstream.frontier.partitions.reading import Reading
from crawlstream.frontier.positions import Positions
from crawlstream.frontier.queries import FrontierQueries
from crawlstream.frontier.schedules import Schedules
from crawlstream.frontier.scripts import Scripts
from crawlstream.frontier.shelves.shelf import Shelf
from crawlstream.frontier.shelves.stocking import Stocking
from crawlstream.frontier.throttle_rules import ThrottleRules
from crawlstream.frontier.worker_session import WorkerSession
from crawlstream.keys import FrontierKeys


class Frontier:
    """Opens the parts of one frontier over one client. One instance a process."""

    def __init__(
        self,
        redis: Redis,
        keys: FrontierKeys,
        limits: FrontierLimits | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """``limits`` are what maintenance goes by; None: the defaults.

        ``shelf`` has the middle of long bands; None: Redis has it.
        """
        limits = limits or FrontierLimits()
        self.scripts = Scripts(redis, keys)
        self.intake = FrontierIntake(self.scripts)
        self.positions = Positions(self.scripts)
        self.overflow = Overflow(self.scripts)
        self.home = Home(self.scripts)
        self.reading = Reading(self.scripts)
        self.contexts = Contexts(self.scripts)
        self.maintenance = FrontierMaintenance(self.scripts, limits)
        self.rules = ThrottleRules(self.scripts)
        self.pools = ProxyPools(self.scripts)
        self.book = ProxyBook(self.scripts)
        self.handshakes = Handshakes(self.scripts)
        self.queries = FrontierQueries(self.scripts)
        self.stocking = Stocking(self.scripts, shelf, shelve_from=limits.shelve_from)
        self.inspector = Inspector(self.scripts, self.stocking)
        self.schedules = Schedules(self.scripts)

    def session(self, worker: str, spiderid: str, *, group: str = "") -> WorkerSession:
        """What a worker of this name uses; ``group`` is its egress group."""
        return WorkerSession(self.scripts, worker, spiderid, group=group)
