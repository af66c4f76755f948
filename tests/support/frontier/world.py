"""The small world of random lives: its crawls, domains, rules and limits, and what workers say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from crawlstream.model.crawl import Budgets, CrawlKey
from crawlstream.model.effects import Release, Requeue, SentRequest, Settle
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import WIDE_OPEN

HOUR_MS = 3_600_000
STEPS_MS = (1, 250, 999, 1_000, 5_000, 9_999, 10_000, 10_001, HOUR_MS)
"""By which Redis' clock is set."""
MOST_GAINED_MS = 200
"""Milliseconds that the frontier clock may gain on true time by such steps."""
COMMANDS = (*["stop"] * 5, *["pause"] * 3, *["resume"] * 3, *["reprioritize"] * 3, "info")
BUDGETS = (
    *(None,) * 8,
    Budgets(max_bytes=300),
    Budgets(max_bytes=1_000, max_failed_share=0.05),
    Budgets(max_seconds=4_000_000),
    Budgets(max_seconds=4_000_000, max_bytes=600),
    Budgets(max_failed_share=0.3),
)
"""Most seeds set none; time is far from being spent."""
LEDGER = (
    *("admitted", "queued", "delayed", "held", "spilled"),
    *("done", "failed", "redirected", "skipped", "stopped", "expired"),
)
UNKNOWN = "9999-1"
"""A token that was never given."""
SHARED = "shared.example"
DOMAINS = {
    "link": ("a.example", "b.example", "10.0.0.1", "::1", SHARED),
    "wan der:er": ("c.example", "d.example", SHARED),
}
CRAWLS = (
    CrawlKey("link", "app", "one"),
    CrawlKey("link", "app", "two: ü%*"),
    CrawlKey("link", "other app", "capped"),
    CrawlKey("wan der:er", "app", "one"),
)
DOMAIN_BYTES = (None, None, 100, 300)
"""Most bytes of a domain in a run."""
HOST_BUDGETS = ((0, 1), (1, 1), (2, 1), (3, 0), None)
"""Pages of a domain, and for each trusted domain that links to it."""
DEPTHS = (1, 2, 2, 3, 3, 3, 200)
"""Depths of links, whatever their pages have; the greatest takes two bytes."""
Caps = tuple[int | None, int | None]
"""Most pages of a domain, and of the crawl."""
CAPS: tuple[Caps, ...] = (*[(None, None)] * 3, (1, None), (None, 4), (3, 7))
RULES = (
    WIDE_OPEN,
    ThrottleRule(hits=5, window_s=1),
    ThrottleRule(hits=3, window_s=2, moderated=False),
    ThrottleRule(hits=100, window_s=0.001, moderated=False, concurrency=2),
    ThrottleRule(hits=5, window_s=1, paused_until=1),
    ThrottleRule(hits=5, window_s=1, paused_until=4_000_000_000),
    ThrottleRule(hits=0, window_s=1),
)


@dataclass(frozen=True)
class World:
    """Subjects of a random sequence: the fewer it has, the more happens to each."""

    caps: dict[CrawlKey, Caps]
    """The limits of each crawl that there is."""
    domain_bytes: dict[CrawlKey, int | None]
    """The budget of a domain, of each crawl."""
    scores: dict[CrawlKey, str | None]
    """The score of each crawl."""
    host_budgets: dict[CrawlKey, tuple[int, int] | None]
    """The host budget of each crawl."""
    domains: dict[str, tuple[str, ...]]
    """The domains of each spider."""
    paths: int
    """How many pages a domain has."""
    most_of_crawl: int
    most_of_all: int
    """How many entries may wait; 0: any number."""
    first_seed: int = 0
    """The least path of a seed; links have paths from 0 on. Seeds are not promoted."""
    links: tuple[int, ...] = (0, 1, 4)
    """Links of a page to a domain, one of these numbers."""
    groups: tuple[int, ...] = (0, 1, 1, 2)
    """Domains to which a page links."""
    wanted: tuple[int, ...] = (0, 1, 1, 2, 5, 20)
    """Pages that a worker requests."""
    exchanges: int = 50
    """How often workers call, compared with other steps."""
    commands: tuple[str, ...] = COMMANDS
    budgets: tuple[Budgets | None, ...] = BUDGETS

    @classmethod
    def some(cls, random: Random) -> World:
        """A random one."""
        budgeting = Random(repr(random.getstate()) + "domains")
        scoring = Random(repr(random.getstate()) + "scores")
        crawls = random.sample(CRAWLS, random.choice((1, 2, 2, 4)))
        return cls(
            caps={crawl: random.choice(CAPS) for crawl in crawls},
            domain_bytes={crawl: budgeting.choice(DOMAIN_BYTES) for crawl in crawls},
            scores={crawl: scoring.choice((None, "inlinks")) for crawl in crawls},
            host_budgets=dict.fromkeys(crawls),
            domains={
                spider: tuple(random.sample(names, min(random.choice((1, 2, 5)), len(names))))
                for spider, names in DOMAINS.items()
            },
            paths=random.choice((4, 13)),
            most_of_crawl=random.choice((0, 0, 0, 4)),
            most_of_all=random.choice((0, 0, 0, 10)),
        )

    @classmethod
    def linked(cls, random: Random) -> World:
        """A crawl with a score in two domains: pages wait, and are linked to again and again."""
        (crawl,) = random.sample(CRAWLS, 1)
        return cls(
            caps={crawl: (None, None)},
            domain_bytes={crawl: None},
            scores={crawl: "inlinks"},
            host_budgets={crawl: None},
            domains={crawl.spiderid: tuple(random.sample(DOMAINS[crawl.spiderid], 2))},
            paths=random.choice((8, 16)),
            most_of_crawl=0,
            most_of_all=0,
            first_seed=100,
            links=(2, 4, 6),
            groups=(1, 2, 2),
            wanted=(1, 1, 2, 3),
            exchanges=200,
            commands=COMMANDS[4:],
            budgets=(None,),
        )

    @classmethod
    def hosted(cls, random: Random) -> World:
        """Crawls of a few domains with host budgets, some of them with a score."""
        world = cls.some(random)
        return replace(
            world,
            host_budgets={crawl: random.choice(HOST_BUDGETS) for crawl in world.caps},
            domains={spider: names[1:] for spider, names in DOMAINS.items()},
            first_seed=random.choice((0, 0, 100)),
            exchanges=100,
        )

    def narrowed(self) -> World:
        """A crawl and a domain of each spider, without limits: queues become long."""
        (crawl, *_) = self.caps
        domains = {spider: names[:1] for spider, names in self.domains.items()}
        return replace(
            self,
            caps={crawl: (None, None)},
            domain_bytes={crawl: None},
            scores={crawl: self.scores[crawl]},
            host_budgets={crawl: None},
            domains=domains,
            paths=40,
            most_of_crawl=0,
            most_of_all=0,
        )


@dataclass
class Told:
    """Contents of an exchange of a worker."""

    sent: list[SentRequest] = field(default_factory=list)
    settles: list[Settle] = field(default_factory=list)
    requeues: list[Requeue] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)

    @property
    def ended(self) -> set[str]:
        """Tokens of the leases that it ends."""
        return {
            *(end.token for end in self.settles),
            *(end.token for end in self.requeues),
            *(end.token for end in self.releases),
        }
