"""Votes of a worker that no sketch has yet, by site; bounded."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from crawling.quality.address_parts import host_hash
from crawling.waste.evidence import PageEvidence
from crawling.waste.trails import Trails
from crawling.waste.trials import Trials
from crawlstream.model.crawl import Lease
from crawlstream.model.url import host_of
from crawlstream_frontier.waste.packing import unpack
from crawlstream_frontier.waste.persons import PersonWords
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.verdicts import SiteVerdicts, verdicts_of
from crawlstream_frontier.waste.votes import PageVote, Vote

MOST_SITES = 4_096
_MOST_VOTES = 20_000
"""Votes of all sites: about 20 MB."""
MOST_OF_SITE = 256
"""Votes of one site that wait for Redis; further pages do not vote."""
_FULL_AT = 16
_OLD_AFTER_S, _OLD_AT = 10.0, 8
READ_EVERY_S = 10.0
_HELD_ROUNDS, _HELD_S = 3, 2.0
"""Rounds of pages, and seconds, for which the vote of a page of the last band is held."""


class SiteName(NamedTuple):
    """A site, and the partition of the frontier that has it."""

    partition: int
    domain: str


class _Held(NamedTuple):
    """Vote of a page of the last band that does not count yet."""

    round: int
    at: float
    vote: PageEvidence | PageVote


@dataclass(slots=True)
class Ballot:
    """Votes and the latest sketch of a site.

    Votes of the last band are held for some rounds: a round ends with a page that was leased after
    it had begun. So pages that such a page leads to, which are fetched first, vote before it.
    """

    votes: list[PageEvidence | Vote] = field(default_factory=list)
    held: deque[_Held] = field(default_factory=deque)
    since: float = 0
    """When the first of these votes was given, by the clock of this process."""
    raw: bytes | None = None
    """The site's packed sketch, as it was last seen; None: not known, or there is none."""
    is_calm: bool = False
    state: str = ""
    """Worst verdict on a family; empty: no sketch was seen."""
    main: int | None = None
    """Hash of the site's main host; None: no sketch was seen."""
    main_host: str = ""
    """Name of the main host; empty: no page of it was seen."""
    verdicts: SiteVerdicts | None = None
    """Families that are not open; None: all are, or no sketch was seen."""
    by_persons: PersonWords = field(default_factory=dict)
    """Verdicts of persons on families of the site."""
    guarded_at: float = -math.inf
    """When a page of a crawl in mode ``on`` was seen."""
    read_at: float = -math.inf
    """When the sketch was seen."""
    round: int = 0
    round_began: float = 0
    trials: Trials = field(default_factory=Trials)
    """Runs that act on the verdicts, and what they try again."""
    soft_errors: frozenset[int] = frozenset()
    """Texts that the site shows for pages that do not exist, with a status of 2xx."""
    trails: Trails = field(default_factory=Trails)
    """Latest pages of the families that are put last."""

    @property
    def size(self) -> int:
        """Return the number of votes."""
        return len(self.votes) + len(self.held)

    def see(self, raw: bytes | None, sketch: Sketch, now: float) -> None:
        """Take over what is stored."""
        self.raw, self.read_at, self.is_calm = raw, now, sketch.is_calm
        self.main = sketch.main if sketch.pages else None
        self.verdicts = self._verdicts_of(sketch)
        self.soft_errors = sketch.texts.frequent.soft_errors
        self.trails.see(sketch, self.by_persons)

    def heed(self, by_persons: PersonWords) -> None:
        """Take over the verdicts of persons."""
        if by_persons != self.by_persons:
            self.by_persons = by_persons
            self.verdicts = self._verdicts_of(unpack(self.raw))

    def note_run(self, lease: Lease) -> int | None:
        """Note a page of a crawl that acts on verdicts, before its links are judged.

        Return the hash of its run if it is the first one of that, here.
        """
        run = self.trials.note(lease)
        if run is not None and self.raw is not None:
            self.verdicts = self._verdicts_of(unpack(self.raw))
        return run

    def _verdicts_of(self, sketch: Sketch) -> SiteVerdicts | None:
        return verdicts_of(sketch, self.by_persons, retried=self.trials.of(sketch))

    def note_end(self, admitted_at: float, now: float) -> None:
        """Note the end of a page that was leased at ``admitted_at``."""
        if admitted_at > self.round_began:
            self.round, self.round_began = self.round + 1, now

    def note_guarded(self, url: str, status: int, now: float) -> None:
        """Note the end of a page of a crawl that acts on verdicts."""
        self.guarded_at = now
        if not self.main_host and self.main is not None and 200 <= status < 300:
            host = host_of(url)
            if host_hash(host) == self.main:
                self.main_host = host

    def is_guarded(self, now: float) -> bool:
        """Return whether crawls act on the verdicts at present."""
        return now - self.guarded_at < READ_EVERY_S

    def ripen(self, now: float) -> None:
        """Let the votes of the last band count that have been held long enough."""
        while self.held:
            first = self.held[0]
            if self.round - first.round < _HELD_ROUNDS or now - first.at < _HELD_S:
                break
            self.since = self.since if self.votes else now
            self.votes.append(self.held.popleft().vote)

    def is_due(self, now: float) -> bool:
        """Return whether the votes that count are to be brought into the sketch.

        A site with families that are put last counts each look: other crawlers may refuse them.
        """
        number = len(self.votes)
        if number >= _FULL_AT or (number and self.verdicts and self.is_guarded(now)):
            return True
        return number >= _OLD_AT and now - self.since >= _OLD_AFTER_S and self.raw is not None

    def wants_reading(self, now: float) -> bool:
        """Return whether crawls act on the verdicts, and they may have changed."""
        return self.is_guarded(now) and now - self.read_at >= READ_EVERY_S


class Ballots:
    """Ballots of the sites that voted last; the others are forgotten, with their votes."""

    def __init__(self, forgotten: Callable[[Ballot], None]) -> None:
        """``forgotten`` is called with each ballot that leaves."""
        self._by_site: OrderedDict[SiteName, Ballot] = OrderedDict()
        self._votes = 0
        self._forgotten = forgotten
        self._by_persons: Mapping[str, PersonWords] = {}

    def __len__(self) -> int:
        return len(self._by_site)

    def of(self, site: SiteName) -> Ballot:
        """Return the ballot of a site, which becomes the latest."""
        ballot = self._by_site.get(site)
        if ballot is None:
            ballot = self._by_site[site] = Ballot()
            ballot.heed(self._by_persons.get(site.domain, {}))
        self._by_site.move_to_end(site)
        while len(self._by_site) > MOST_SITES or self._votes > _MOST_VOTES:
            _, oldest = self._by_site.popitem(last=False)
            self._votes -= oldest.size
            self._forgotten(oldest)
        return ballot

    def heed(self, by_persons: Mapping[str, PersonWords]) -> None:
        """Take over the verdicts of persons, by site."""
        self._by_persons = by_persons
        for site, ballot in self._by_site.items():
            ballot.heed(by_persons.get(site.domain, {}))

    def is_guarded(self, now: float) -> bool:
        """Return whether crawls act on the verdicts on any site at present."""
        return any(ballot.is_guarded(now) for ballot in self._by_site.values())

    def add(self, site: SiteName, vote: PageEvidence | PageVote, now: float) -> None:
        """Add a vote; one of the last band counts later."""
        ballot = self.of(site)
        if ballot.size >= MOST_OF_SITE:
            return
        self._votes += 1
        if vote.from_last:
            ballot.held.append(_Held(ballot.round, now, vote))
        else:
            ballot.since = ballot.since if ballot.votes else now
            ballot.votes.append(vote)

    def say(self, site: SiteName, word: Vote, now: float) -> None:
        """Add what is known of a site as a whole; it counts with the next votes."""
        ballot = self.of(site)
        self._votes += 1
        ballot.since = ballot.since if ballot.votes else now
        ballot.votes.append(word)

    def due(self, now: float) -> Iterator[SiteName]:
        """Yield the sites whose votes are to be brought into their sketches."""
        for site, ballot in self._by_site.items():
            if ballot.held:
                ballot.ripen(now)
            if ballot.is_due(now):
                yield site

    def unread(self, now: float) -> Iterator[SiteName]:
        """Yield the sites whose sketches are to be read for crawls in mode ``on``."""
        return (site for site, each in self._by_site.items() if each.wants_reading(now))

    def take(self, site: SiteName) -> list[Vote]:
        """Take the votes of a site that count off its ballot."""
        ballot = self._by_site.get(site)
        if ballot is None:
            return []
        votes, ballot.votes = ballot.votes, []
        self._votes -= len(votes)
        return [vote.vote() if isinstance(vote, PageEvidence) else vote for vote in votes]
