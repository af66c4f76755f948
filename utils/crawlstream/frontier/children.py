"""Children of pages on their way into the frontier: what they inherit, how many fit a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from crawlstream.frontier import packing
from crawlstream.frontier.known import KnownLinks
from crawlstream.frontier.links import Inheritance
from crawlstream.frontier.scripts import Scripts
from crawlstream.frontier.sites import Sites
from crawlstream.model.effects import Links, Settle

LINKS_PER_CALL = 1_000
"""Links in one script: keeps the longest call near 5 ms."""
GROUPS_PER_CALL = 250
"""Groups of them, each of one domain and priority, for the same reason: one that brings a new
domain takes as long as ten links. Others do not count where a worker knows that they do not."""

_UNKNOWN = Inheritance(b"0", 0, 0, None, None)
"""Of a hold that this process does not know; Redis does not either, and takes no children of it."""


class Children:
    """Packs the links of the pages that one worker holds.

    A page's children name its profile by number and have its page limits; both came with the hold.
    Links that the frontier is known to know stay here.
    """

    def __init__(self, scripts: Scripts, sites: Sites) -> None:
        self._scripts = scripts
        self.sites = sites
        self._inherited: dict[str, Inheritance] = {}
        self._known = KnownLinks()
        self._packed: dict[str, Sequence[Links]] = {}

    def learn(self, inherited: Mapping[str, Inheritance]) -> None:
        """Take note of new holds, by token."""
        self._inherited.update(inherited)

    def admitted(self, life: int, not_these: Collection[str]) -> None:
        """The exchange that was packed last has taken effect, but for the links of some tokens."""
        self._known.live(life)
        for token, links in self._packed.items():
            if token not in not_these and (inherited := self._inherited.get(token)):
                crawl = inherited.crawl
                self._known.learn_domains(life, crawl, [group.domain for group in links])
                for group in links:
                    self._known.learn(life, crawl, group.fingerprints)
        self._packed = {}

    def forget(self, tokens: Collection[str]) -> None:
        """These holds have ended."""
        for token in tokens:
            self._inherited.pop(token, None)

    def clear(self) -> None:
        """All holds have ended."""
        self._inherited.clear()

    def __len__(self) -> int:
        return len(self._inherited)

    async def pack(
        self, worker: str, spiderid: str, settles: Sequence[Settle]
    ) -> tuple[list[object], list[object], list[str]]:
        """Settles for an exchange, those without anything found apart from the others.

        The third list are tokens of settles that must not be in it: Redis has no room for links.

        Links beyond what fits into it are put ahead of it, and known ones are left out. Such a
        settle names the life of Redis under which the first of them were put, or known: if Redis
        was restarted since, it finds another life and asks for a repetition.
        """
        self._packed = {}
        packed: list[object] = []
        plain: list[Settle] = []
        refused: list[str] = []
        room, domains = LINKS_PER_CALL, set[tuple[bytes, str]]()
        for settle in settles:
            if not (settle.links or settle.filtered or settle.spilled):
                plain.append(settle)
                continue
            links, known = self._leave_out_known(settle)
            life = self._known.life if known else None
            size = sum(len(group.entries) for group in links)
            with_these = domains | self._new_domains(settle, links)
            if size > room or len(with_these) > GROUPS_PER_CALL:
                known = 0
                life, is_refused = await self.put(worker, spiderid, settle.token, settle.links)
                if is_refused:
                    refused.append(settle.token)
                    continue
                links = ()
            else:
                room, domains = room - size, with_these
            packed.append(self._pack_settle(spiderid, settle, links, life=life, known=known))
        return packing.pack_ends(plain), packed, refused

    async def put(
        self, worker: str, spiderid: str, token: str, links: Sequence[Links]
    ) -> tuple[int | None, bool]:
        """Put links below a held page; the life of Redis at the first of them.

        And whether Redis had no room for all of them: it may have some.
        """
        inherited = self._inherited.get(token, _UNKNOWN)
        first_life = None
        new = self._known.new_domains(inherited.crawl, links)
        for groups in split_links(links, LINKS_PER_CALL, new):
            request = [
                worker,
                token,
                packing.none_as(inherited.domain_max_pages),
                packing.none_as(inherited.max_pages),
                inherited.pack_links(self.sites.file(groups), spiderid),
            ]
            answer = await self._scripts.run("put", packing.pack(request))
            life, is_refused = packing.unpack(answer)
            first_life = life if first_life is None else first_life
            if is_refused:
                return first_life, True
            self._known.learn_domains(life, inherited.crawl, [group.domain for group in groups])
        return first_life, False

    def inherited(self, token: str) -> Inheritance | None:
        """What children of a held page inherit; None for a hold that nobody knows."""
        return self._inherited.get(token)

    def _leave_out_known(self, settle: Settle) -> tuple[Sequence[Links], int]:
        inherited = self._inherited.get(settle.token, _UNKNOWN)
        return self._known.new_of(inherited.crawl, settle.links)

    def _new_domains(self, settle: Settle, links: Sequence[Links]) -> set[tuple[bytes, str]]:
        crawl = self._inherited.get(settle.token, _UNKNOWN).crawl
        return {(crawl, domain) for domain in self._known.new_domains(crawl, links)}

    def _pack_settle(
        self, spiderid: str, settle: Settle, links: Sequence[Links], *, life: int | None, known: int
    ) -> list[object]:
        inherited = self._inherited.get(settle.token, _UNKNOWN)
        self._packed[settle.token] = links
        filtered = Counter(settle.filtered) + Counter(duplicate=known)
        return [
            settle.token,
            settle.outcome.value,
            settle.reason,
            packing.none_as(settle.sent_ms),
            settle.body_bytes,
            packing.none_as(inherited.domain_max_pages),
            packing.none_as(inherited.max_pages),
            inherited.pack_links(self.sites.file(links), spiderid),
            [part for pair in filtered.items() for part in pair],
            packing.none_as(life),
            [part for pair in settle.spilled.items() for part in pair],
        ]


def split_links(
    links: Sequence[Links], size: int, new: Collection[str] | None = None
) -> Iterator[list[Links]]:
    """The same links in the same order, in lists of at most ``size`` and GROUPS_PER_CALL groups.

    Where it is known which domains are ``new``, lists have at most so many of these, instead.
    """
    groups: list[Links] = []
    brought: set[str] = set()
    room = size
    for group in links:
        start = 0
        while start < len(group.entries):
            part = _slice(group, start, start + room)
            groups.append(part)
            start += len(part.entries)
            room -= len(part.entries)
            if new is not None and part.domain in new:
                brought.add(part.domain)
            if room == 0 or len(groups if new is None else brought) == GROUPS_PER_CALL:
                yield groups
                groups, brought, room = [], set(), size
    if groups:
        yield groups


def _slice(group: Links, start: int, end: int) -> Links:
    if start == 0 and end >= len(group.entries):
        return group
    return Links(
        domain=group.domain,
        priority=group.priority,
        spiderid=group.spiderid,
        counts=group.counts,
        fingerprints=group.fingerprints[start:end],
        entries=group.entries[start:end],
    )
