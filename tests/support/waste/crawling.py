"""A crawl of one generated site, breadth first, that acts on a model's verdicts or only watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from crawling.quality.address_parts import address_hash, pairs_of, place_of
from crawling.waste.made_up import beside, made_up
from crawling.waste.trails import Trail
from crawlstream_chaos.waste_sites.site import GeneratedPage, GeneratedSite, Url, url
from crawlstream_frontier.waste.votes import NeighbourAnswer, PageVote, TextAnswer, Vote
from support.waste.model import GuardModel

BATCH = 16


class Waiting(NamedTuple):
    """A URL that waits, and the page that linked to it."""

    url: Url
    parent: Url | None


class ModelCrawl:
    """A crawl of a site with at most ``budget`` fetches."""

    def __init__(
        self, site: GeneratedSite, budget: int, *, acts: bool, model: GuardModel | None = None
    ) -> None:
        """``acts``: links are dropped, refused and put last by the model's verdicts.

        ``model``: that of an earlier crawl of the site, or one that asks for no neighbours.
        """
        self.model = model or GuardModel(asks=acts)
        self.asked = 0
        """Number of neighbours that were made up."""
        self._trails: dict[str, Trail] = {}
        """Latest pages of each family that is put last."""
        self._latest: dict[int, str] = {}
        """Latest page with each text."""
        self._is_error = False
        """True if the text of the page that was fetched last is that of pages that do not exist."""
        self.truths = set[str]()
        self.fetches = 0
        self._site = site
        self._budget = budget
        self._decide: Callable[[Url], tuple[Url, str]] = (
            self._decided if acts else lambda at: (at, "open")
        )
        front = url("/")
        self._todo, self._last = deque([Waiting(front, None)]), deque[Waiting]()
        self._known = {front}
        self._verdicts: dict[str, str] = {}
        """Verdicts of the families that are not open."""
        self._dropped = set[str]()
        self.model.begin()
        self._learn([])

    def batches(self) -> Iterator[list[Vote]]:
        """Crawl; yield the votes of each batch after the model has learned them."""
        votes: list[Vote] = []
        while self.fetches < self._budget and (self._todo or self._last):
            from_last = not self._todo
            waiting = (self._last if from_last else self._todo).popleft()
            vote = self._visit(waiting, from_last=from_last)
            if vote:
                votes.append(vote)
            if len(votes) == BATCH or not (self._todo or self._last):
                self._learn(votes)
                yield votes
                votes = self._ask()

    def _ask(self) -> list[Vote]:
        """Return what the site says to made-up neighbours of the families that want one."""
        model, answers = self.model, list[Vote]()
        for family in model.families if model.asks else ():
            trail = self._trails.get(family.name)
            if trail and family.asks_for_neighbour:
                self.asked += 1
                neighbour = made_up(family.name, trail.first, trail.latest, f"w{self.asked}")
                assert neighbour is not None
                page = self._site.fetch(Url.of(neighbour))
                is_there = page.status == 200 and page.text_hash in trail.texts
                answers.append(NeighbourAnswer(family.name, is_there))
        for text in model.untried if model.asks else ():
            self.asked += 1
            neighbour = beside(self._latest[text], f"w{self.asked}")
            assert neighbour is not None
            page = self._site.fetch(Url.of(neighbour))
            answers.append(TextAnswer(text, page.status == 200 and page.text_hash == text))
        return answers

    def _learn(self, votes: list[Vote]) -> None:
        for vote in votes:
            if isinstance(vote, NeighbourAnswer):
                self.model.answer(vote)
            elif isinstance(vote, TextAnswer):
                self.model.answer_text(vote)
            elif isinstance(vote, PageVote):
                self.model.learn(vote)
        decided = {name: word for name, word in self.model.verdicts.items() if word != "open"}
        self._verdicts = decided
        self._dropped = {name for name, word in decided.items() if word == "dropped"}

    def _visit(self, waiting: Waiting, *, from_last: bool) -> PageVote | None:
        clean, verdict = self._decide(waiting.url)
        self._is_error = False
        if clean != waiting.url and clean not in self._known:
            self._put(clean, waiting.parent)
        if clean != waiting.url or verdict == "refused":
            return None
        if verdict == "last" and not from_last:
            self._last.append(waiting)
            return None
        page = self._site.fetch(waiting.url)
        self.fetches += 1
        self._note(waiting.url, page)
        if page.truth is not None and page.status == 200:
            self.truths.add(page.truth)
        for link in page.links:
            clean, _ = self._decide(link)
            if clean not in self._known:
                self._put(clean, waiting.url)
        return vote_of(waiting, page, from_last=from_last)

    def _note(self, at: Url, page: GeneratedPage) -> None:
        self._latest[page.text_hash] = at.text
        self._is_error = page.status == 200 and page.text_hash in self.model.soft_errors
        for name in place_of(at.text).families if self._verdicts else ():
            if self._verdicts.get(name) == "last":
                self._trails.setdefault(name, Trail()).add(at.text, page.text_hash)

    def _put(self, at: Url, parent: Url | None) -> None:
        _, verdict = self._decide(at)
        if verdict != "refused":
            self._known.add(at)
            is_last = verdict == "last" or self._is_error
            (self._last if is_last else self._todo).append(Waiting(at, parent))

    def _decided(self, at: Url) -> tuple[Url, str]:
        """Return a URL without what does not matter, and the worst verdict of its families."""
        sample = crc32(at.text.encode()) >> 4
        verdicts, dropped = self._verdicts, self._dropped
        if dropped and sample % 32:
            at = at.without(*(name[1:] for name in dropped))
            at = at._replace(label="" if "host" in dropped else at.label)
        if not verdicts:
            return at, "open"
        names = self.model.names(place_of(at.text))
        found = {verdicts.get(name) for name in names}
        if "refused" in found:
            return at, "last" if sample % 64 == 1 else "refused"
        return at, "last" if "last" in found else "open"


def vote_of(waiting: Waiting, page: GeneratedPage, *, from_last: bool = False) -> PageVote:
    """Return the vote of a page."""
    return PageVote(
        place=place_of(waiting.url.text),
        parent=place_of(waiting.parent.text) if waiting.parent else None,
        is_there=page.status == 200,
        text=page.text_hash,
        address=address_hash(waiting.url.text),
        pairs=pairs_of(waiting.url.text),
        from_last=from_last,
    )
