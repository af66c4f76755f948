"""Cache of the links that a worker has put: most links of a page were put before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from crawlstream.model.effects import FOUND_AGAIN, FOUND_EARLY, Links
from crawlstream_frontier.link_rules.host_budgets import UNTRUSTED, says_something

_GENERATION = 50_000
"""Fingerprints and domains in each of two generations; together some 15 MB."""


class LinkCache:
    """Links that the frontier surely knows, by crawl number: fingerprints, and domains; bounded.

    A Redis never gives a crawl number twice, and dropping a crawl's dedupe ends its
    number. So only a restart of Redis, which may have undone the latest puts, can make the cache
    wrong. :attr:`redis_epoch` is the epoch of Redis that it belongs to; a settle that leaves
    links out must name it, and put them all if Redis is in another one.
    """

    def __init__(self, generation: int = _GENERATION) -> None:
        self.redis_epoch: int | None = None
        self._generation = generation
        self._size = 0
        self._young: dict[bytes, set[str]] = {}
        self._old: dict[bytes, set[str]] = {}

    def learn(self, redis_epoch: int, crawl: bytes, fingerprints: Iterable[str]) -> None:
        """Note fingerprints that the frontier has admitted, or knew before."""
        self.enter(redis_epoch)
        if self._size >= self._generation:
            self._old, self._young, self._size = self._young, {}, 0
        young = self._young.setdefault(crawl, set())
        before = len(young)
        young.update(fingerprints)
        self._size += len(young) - before

    def learn_links(self, redis_epoch: int, crawl: bytes, links: Iterable[Links]) -> None:
        """Note the fingerprints of links, but for those that others may find at a smaller depth.

        Also what they say of their domain, in a crawl with a host budget.
        """
        for group in links:
            if says_something(group):
                self.learn(redis_epoch, crawl, [_said(group)])
            if group.linked != FOUND_EARLY:
                self.learn(redis_epoch, crawl, group.fingerprints)

    def learn_domains(self, redis_epoch: int, crawl: bytes, domains: Iterable[str]) -> None:
        """Note domains that have or had entries: further links into them cost Redis little."""
        self.learn(redis_epoch, crawl, map(_domain_mark, domains))

    def new_domains(self, crawl: bytes, links: Sequence[Links]) -> set[str]:
        """Return the domains that links may add to the crawl."""
        known = self._generations(crawl)
        domains = {group.domain for group in links}
        return {domain for domain in domains if not _is_in(known, _domain_mark(domain))}

    def enter(self, redis_epoch: int) -> None:
        """Enter an epoch of Redis: forget data of another one."""
        if redis_epoch != self.redis_epoch:
            self.redis_epoch = redis_epoch
            self._young, self._old, self._size = {}, {}, 0

    def new_of(self, crawl: bytes, links: Sequence[Links]) -> tuple[Sequence[Links], int]:
        """Return the links that are not cached, and how many were left out."""
        known = self._generations(crawl)
        if not known:
            return links, 0
        kept: list[Links] = []
        left_out = 0
        for group in links:
            fingerprints = group.fingerprints
            if all(each.isdisjoint(fingerprints) for each in known):
                kept.append(group)
                continue
            places = [n for n, each in enumerate(fingerprints) if not _is_in(known, each)]
            left_out += len(fingerprints) - len(places)
            if places:
                kept.append(_only(group, places))
        return kept, left_out

    def found_again(self, crawl: bytes, links: Sequence[Links]) -> list[Links]:
        """Count links of a crawl with a score; return those that are found for the third time."""
        known = self._generations(crawl)
        again: list[Links] = []
        for group in links:
            if not (group.linked and group.counts) or group.standing.startswith(UNTRUSTED):
                continue
            places = [
                place
                for place, each in enumerate(group.fingerprints)
                if _is_in(known, each) and self._is_third(crawl, known, each)
            ]
            if places:
                again.append(replace(_only(group, places), linked=FOUND_AGAIN))
        return again

    def sent_again(
        self, crawl: bytes, links: Sequence[Links], new: Sequence[Links]
    ) -> Sequence[Links]:
        """Return the known links that are sent all the same, besides ``new`` ones."""
        again = self.found_again(crawl, links) if links[0].linked else []
        return [*again, *self.unsaid(crawl, links, [*new, *again])] if links[0].standing else again

    def unsaid(self, crawl: bytes, links: Sequence[Links], new: Sequence[Links]) -> list[Links]:
        """Return a known link to each domain of which links say something that Redis may not know.

        ``new``: links that are sent anyway.
        """
        known = self._generations(crawl)
        sent = {(group.domain, group.standing) for group in new}
        unsaid: list[Links] = []
        for group in links:
            kind = group.domain, group.standing
            if says_something(group) and kind not in sent and not _is_in(known, _said(group)):
                sent.add(kind)
                unsaid.append(_only(group, [0]))
        return unsaid

    def _is_third(self, crawl: bytes, known: Collection[set[str]], fingerprint: str) -> bool:
        """Note that a known link was found again; return whether this is its third time."""
        assert self.redis_epoch is not None
        twice, thrice = f"2/{fingerprint}", f"3/{fingerprint}"
        is_second = not _is_in(known, twice)
        is_third = not is_second and not _is_in(known, thrice)
        if is_second or is_third:
            self.learn(self.redis_epoch, crawl, [thrice if is_third else twice])
        return is_third

    def _generations(self, crawl: bytes) -> Sequence[set[str]]:
        return [each for each in (self._young.get(crawl), self._old.get(crawl)) if each]


def _domain_mark(domain: str) -> str:
    """Return the mark of a domain among fingerprints, which are numbers."""
    return f"/{domain}"


def _said(group: Links) -> str:
    """Return the mark of what links say of their domain."""
    return f"/{group.domain} {group.standing}"


def _is_in(known: Collection[set[str]], fingerprint: str) -> bool:
    return any(fingerprint in each for each in known)


def _only(group: Links, places: Sequence[int]) -> Links:
    return replace(
        group,
        fingerprints=[group.fingerprints[place] for place in places],
        entries=[group.entries[place] for place in places],
    )
