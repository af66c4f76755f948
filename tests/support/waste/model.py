"""Reference model of the waste guard: the same rules as the sketch, with plain lists and numbers.

It has no format and knows no bytes, so that a reader can check it against the rules. The sketch
must come to the same verdicts after each batch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from zlib import crc32

from crawlstream_frontier.waste.votes import NeighbourAnswer, PageVote, SitePlace, TextAnswer

YIELDS = ("pages", "heavy", "dup", "fresh", "maybe", "credit_fresh", "credit_maybe")
PAGING = {"?page", "?p", "?start", "?offset", "/page/#"}
TENTH, FIFTIETH = Fraction(1, 10), Fraction(1, 50)


@dataclass
class ModelFamily:
    """A family of URLs."""

    name: str
    seen: Counter[str] = field(default_factory=Counter)
    eq: int = 0
    ne: int = 0
    state: str = "open"
    dropped: bool = False
    confirmed: bool = False
    missing: int = 0
    releases: int = 0

    @property
    def key(self) -> int:
        """Return the hash by which a sketch knows it."""
        return crc32(self.name.encode())

    @property
    def verdict(self) -> str:
        """Return the word for what is decided."""
        return "dropped" if self.dropped else self.state

    def judge(self, modulus: int, *, asks: bool) -> None:
        """Decide by the counters; they begin again after a decision, and are halved at times."""
        pages = self.seen["pages"]
        if pages < 16:
            return
        decided = self._next(modulus, asks=asks)
        if decided == "open" != self.state:
            self.confirmed = False
            decided = "open" if self.releases < 4 else "last"
            self.releases = min(self.releases + 1, 4)
        if decided != self.state:
            self.state, self.seen = decided, Counter()
        elif pages >= max(192, 40 * modulus):
            self.seen = Counter({name: n // 2 for name, n in self.seen.items()})

    def answer(self, *, is_there: bool) -> None:
        """Take in whether the site has a made-up neighbour."""
        if is_there:
            self.confirmed = True
        else:
            self.missing, self.seen = self.missing + 1, Counter()

    @property
    def asks_for_neighbour(self) -> bool:
        """Return whether a neighbour is to be made up."""
        is_asked = self.name != "host" and not self.confirmed and self.missing < 3
        return is_asked and self.verdict == "last" and self._is_empty(16)

    def _is_empty(self, least: int) -> bool:
        """Return whether pages of the last band bring nothing."""
        seen, pages = self.seen, self.seen["pages"]
        new = seen["fresh"] + seen["credit_fresh"]
        possible = new + seen["maybe"] + seen["credit_maybe"]
        surely = pages >= 48 and Fraction(possible, pages) <= FIFTIETH
        return surely or (new == 0 and seen["dup"] >= least)

    def _next(self, modulus: int, *, asks: bool) -> str:
        seen, pages = self.seen, self.seen["pages"]
        new = seen["fresh"] + seen["credit_fresh"]
        possible = Fraction(new + seen["maybe"] + seen["credit_maybe"], pages)
        sampled = seen["fresh"] + seen["dup"]
        share = Fraction(modulus * new, max(seen["heavy"] + modulus * sampled, 1))
        if self.state == "open":
            least = FIFTIETH if self.name in PAGING else TENTH
            bad = possible < least or (sampled >= 16 and share < least)
            return "last" if bad else "open"
        if share > TENTH and new >= 3:
            return "open"
        if asks and self.name != "host":
            may_end = self.confirmed and self._is_empty(16)
        else:
            may_end = not self.name.startswith("/") and self._is_empty(32)
        if self.state == "last" and may_end:
            return "refused"
        return self.state

    def pair(self, *, equal: bool) -> None:
        """Count two pages that differ only in this parameter or host."""
        self.eq, self.ne = self.eq + equal, self.ne + (not equal)
        if self.eq > 1023:
            self.eq, self.ne = self.eq // 2, self.ne // 2
        if self.dropped and self.ne * 16 > self.eq:
            self.dropped = False
        elif not self.dropped and self.ne * 32 <= self.eq:
            self.dropped = self.eq >= (64 if self.name in PAGING else 16)


class GuardModel:
    """State of one site."""

    def __init__(self, *, asks: bool = False) -> None:
        """``asks``: whether neighbours are made up before families are refused."""
        self.asks = asks
        self.pages = 0
        self.main: int | None = None
        self.hosts: set[int] = set()
        self.families: list[ModelFamily] = []
        self.frequent: list[list[int]] = []
        """Text, count, and the count with which it began."""
        self.tried: dict[int, bool] = {}
        """Frequent texts of which a neighbour was made up: whether it showed the text."""
        self.tries = 0
        self.sample: list[tuple[int, int | None]] = []
        """Text, and the address of the first page with it."""
        self.modulus = 1
        self.pairs: list[tuple[int, int, int]] = []
        """Key, text and value of first pages."""
        self.pair_modulus = 1

    @property
    def verdicts(self) -> dict[str, str]:
        """Return the verdict of each family."""
        return {family.name: family.verdict for family in self.families}

    def learn(self, vote: PageVote) -> None:
        """Take a page into account."""
        self.pages += 1
        self.main = vote.place.host if self.main is None else self.main
        self.hosts.add(vote.place.host)
        self._learn_pairs(vote)
        kind = self._kind(vote)
        own_names = self.names(vote.place)
        own = [self.family(name) for name in own_names]
        for family in [each for each in own if each.state == "open"] or own:
            if family.state == "open" or vote.from_last or kind == "fresh":
                family.seen.update(("pages", kind))
                family.judge(self.modulus, asks=self.asks)
        if kind in {"fresh", "maybe"} and vote.parent:
            for name in self.names(vote.parent):
                if name not in own_names:
                    self.family(name).seen[f"credit_{kind}"] += 1
                    self.family(name).judge(self.modulus, asks=self.asks)

    def begin(self) -> None:
        """Take into account that another crawl begins."""
        for family in self.families:
            if family.state == "refused":
                family.state, family.seen = "last", Counter()

    def answer(self, answered: NeighbourAnswer) -> None:
        """Take into account what the site said to a made-up neighbour."""
        family = self.family(answered.family)
        if family.asks_for_neighbour:
            family.answer(is_there=answered.is_there)
            family.judge(self.modulus, asks=self.asks)

    @property
    def untried(self) -> list[int]:
        """Return the frequent texts of which a neighbour is to be made up."""
        least = 8 * (self.tries + 1)
        counts = [(text, count - began) for text, count, began in self.frequent]
        wanted = [text for text, pages in counts if pages >= least and text not in self.tried]
        return wanted if self.tries < 15 else []

    @property
    def soft_errors(self) -> set[int]:
        """Return the texts of pages that do not exist."""
        return {text for text, is_there in self.tried.items() if is_there}

    def answer_text(self, answered: TextAnswer) -> None:
        """Take into account whether a neighbour of a page with a frequent text showed it."""
        if answered.text in self.untried:
            self.tried[answered.text] = answered.is_there
            self.tries += 1

    def names(self, place: SitePlace) -> list[str]:
        """Return the names of a page's families."""
        if place.host == self.main:
            return list(place.families)
        return [name for name in place.families if name[0] == "?"] + ["host"]

    def family(self, name: str) -> ModelFamily:
        """Return a family; of more than 20 the undecided one with the fewest pages leaves."""
        for family in self.families:
            if family.name == name:
                return family
        if len(self.families) == 20:
            undecided = [each for each in self.families if each.verdict == "open"]
            candidates = undecided or self.families
            self.families.remove(min(candidates, key=lambda each: each.seen["pages"]))
        self.families.append(ModelFamily(name))
        return self.families[-1]

    def _kind(self, vote: PageVote) -> str:
        if vote.text is None or not vote.is_there:
            return "maybe" if vote.is_there else "heavy"
        short = vote.text >> 8
        if (short, vote.address) in self.sample:
            return "fresh"
        if self._is_frequent(vote.text):
            return "heavy"
        return self._sampled(short, vote.address)

    def _sampled(self, short: int, address: int | None) -> str:
        if short % self.modulus:
            return "maybe"
        if any(short == text for text, _ in self.sample):
            return "dup"
        self.sample.append((short, address))
        while len(self.sample) > 188 and self.modulus < 64:
            self.modulus *= 2
            self.sample = [each for each in self.sample if each[0] % self.modulus == 0]
        self.sample = self.sample[-188:]
        return "fresh"

    def _is_frequent(self, text: int) -> bool:
        found = next((each for each in self.frequent if each[0] == text), None)
        if found is None:
            found = [text, 0, 0]
            if len(self.frequent) == 16:
                others = [each for each in self.frequent if each[0] not in self.soft_errors]
                least = min(others or self.frequent, key=lambda each: each[1])
                self.frequent.remove(least)
                self.tried.pop(least[0], None)
                found = [text, least[1], least[1]]
            self.frequent.append(found)
        found[1] += 1
        return found[1] - found[2] >= 4

    def _learn_pairs(self, vote: PageVote) -> None:
        if not vote.is_there or vote.text is None:
            return
        short = vote.text >> 8
        for name, key, value in vote.pairs:
            if key % self.pair_modulus or (name == "host" and self.hosts <= {self.main}):
                continue
            first = next((each for each in self.pairs if each[0] == key), None)
            if first is None:
                self._add_pair(key, short, value)
            elif first[2] != value:
                self.family(name).pair(equal=first[1] == short)

    def _add_pair(self, key: int, text: int, value: int) -> None:
        self.pairs.append((key, text, value))
        while len(self.pairs) > 64 and self.pair_modulus < 64:
            self.pair_modulus *= 2
            self.pairs = [each for each in self.pairs if each[0] % self.pair_modulus == 0]
        self.pairs = self.pairs[-64:]
