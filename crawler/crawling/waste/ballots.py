"""Votes of a worker that no sketch has yet, by site; bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlstream_frontier.waste.votes import PageVote

MOST_SITES = 4_096
_MOST_VOTES = 20_000
"""Votes of all sites: about 20 MB."""
MOST_OF_SITE = 256
"""Votes of one site that wait for Redis; further pages do not vote."""
_FULL_AT = 16
_OLD_AFTER_S, _OLD_AT = 10.0, 8


class SiteName(NamedTuple):
    """A site, and the partition of the frontier that has it."""

    partition: int
    domain: str


@dataclass(slots=True)
class Ballot:
    """Votes and the latest sketch of a site."""

    votes: list[PageVote] = field(default_factory=list)
    since: float = 0
    """When the first of these votes was given, by the clock of this process."""
    raw: bytes | None = None
    """The site's packed sketch, as it was last seen; None: not known, or there is none."""
    is_calm: bool = False
    state: str = ""
    """Worst verdict on a family; empty: no sketch was seen."""


class Ballots:
    """Ballots of the sites that voted last; the others are forgotten, with their votes."""

    def __init__(self, forgotten: Callable[[Ballot], None]) -> None:
        """``forgotten`` is called with each ballot that leaves."""
        self._by_site: OrderedDict[SiteName, Ballot] = OrderedDict()
        self._votes = 0
        self._forgotten = forgotten

    def __len__(self) -> int:
        return len(self._by_site)

    def of(self, site: SiteName) -> Ballot:
        """Return the ballot of a site, which becomes the latest."""
        ballot = self._by_site.setdefault(site, Ballot())
        self._by_site.move_to_end(site)
        while len(self._by_site) > MOST_SITES or self._votes > _MOST_VOTES:
            _, oldest = self._by_site.popitem(last=False)
            self._votes -= len(oldest.votes)
            self._forgotten(oldest)
        return ballot

    def add(self, site: SiteName, vote: PageVote, now: float) -> None:
        """Add a vote."""
        ballot = self.of(site)
        if len(ballot.votes) < MOST_OF_SITE:
            ballot.since = ballot.since if ballot.votes else now
            ballot.votes.append(vote)
            self._votes += 1

    def due(self, now: float) -> Iterator[SiteName]:
        """Yield the sites with a full ballot, or an old one of a site that has a sketch."""
        for site, ballot in self._by_site.items():
            is_old = len(ballot.votes) >= _OLD_AT and now - ballot.since >= _OLD_AFTER_S
            if len(ballot.votes) >= _FULL_AT or (is_old and ballot.raw is not None):
                yield site

    def take(self, site: SiteName) -> list[PageVote]:
        """Take the votes of a site off its ballot."""
        ballot = self._by_site.get(site)
        if ballot is None:
            return []
        votes, ballot.votes = ballot.votes, []
        self._votes -= len(votes)
        return votes
