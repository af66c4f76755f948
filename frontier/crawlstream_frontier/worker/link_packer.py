"""Children of pages on their way into the frontier: what they inherit, how many fit a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from crawlstream.model.effects import Links, Outcome, Settle
from crawlstream_frontier.codec.exchange import pack_ends
from crawlstream_frontier.codec.link_batch import amount_of
from crawlstream_frontier.codec.links import (
    GROUPS_PER_CALL,
    LINKS_PER_CALL,
    Inheritance,
    Metered,
    split_links,
)
from crawlstream_frontier.codec.values import none_as, pack, unpack
from crawlstream_frontier.host_sites import HostSites
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.worker.link_cache import LinkCache

_UNKNOWN = Inheritance(b"0", 0, 0, None, None)
"""For a lease that this process does not know; Redis does not either, and refuses its children."""


class PackedSettles(NamedTuple):
    """Settles as an exchange takes them."""

    ends: list[object]
    """Settles without links."""
    with_children: list[object]
    refused: list[str]
    """Tokens of settles that were left out: Redis has no room for their links."""


class PutResult(NamedTuple):
    """Result of putting links ahead of a settle."""

    redis_epoch: int | None
    """Epoch of Redis at the first put; None: there were no links."""
    is_refused: bool
    """Redis had no room for all of them; it may have some."""


class LinkPacker:
    """Packs the links of the pages that one worker holds.

    A page's children name its profile by number and have its page limits; both came with the lease.
    Links that the frontier surely knows are not sent.
    """

    def __init__(self, scripts: Scripts, sites: HostSites, worker: str, spiderid: str) -> None:
        self._scripts = scripts
        self._sites = sites
        self._worker = worker
        self._spiderid = spiderid
        self._inherited: dict[str, Inheritance] = {}
        self._link_cache = LinkCache()
        self._packed: dict[str, Sequence[Links]] = {}

    def learn(self, inherited: Mapping[str, Inheritance]) -> None:
        """Take note of new leases, by token."""
        self._inherited.update(inherited)

    def admitted(self, redis_epoch: int, not_these: Collection[str]) -> None:
        """Note that the last packed exchange took effect, except for the links of some tokens."""
        self._link_cache.enter(redis_epoch)
        for token, links in self._packed.items():
            if token not in not_these and (inherited := self._inherited.get(token)):
                crawl = inherited.crawl
                self._link_cache.learn_domains(
                    redis_epoch, crawl, [group.domain for group in links]
                )
                self._link_cache.learn_links(redis_epoch, crawl, links)
        self._packed = {}

    def forget(self, tokens: Collection[str]) -> None:
        """Forget the inherited settings of ended leases."""
        for token in tokens:
            self._inherited.pop(token, None)

    def clear(self) -> None:
        """Forget all leases."""
        self._inherited.clear()

    def __len__(self) -> int:
        return len(self._inherited)

    async def pack(self, settles: Sequence[Settle]) -> PackedSettles:
        """Pack settles for an exchange, those without links apart from the others.

        Links that do not fit into it are put ahead of it, and known ones are left out. Such a
        settle names the epoch of Redis in which its first links were put, or known: if Redis
        was restarted since, the epochs differ and Redis requests a repetition.
        """
        self._packed = {}
        packed: list[object] = []
        plain: list[Settle] = []
        refused: list[str] = []
        room, domains = LINKS_PER_CALL, set[tuple[bytes, str]]()
        for settle in settles:
            more = settle.links or settle.filtered or settle.spilled or settle.need
            is_counted = settle.dropped or settle.is_reserved or settle.answered
            has_refused = settle.refused and settle.outcome is not Outcome.SKIPPED
            if not (more or settle.charged or is_counted or has_refused):
                plain.append(settle)
                continue
            links, known = self._leave_out_known(settle)
            epoch = self._link_cache.redis_epoch if known else None
            size = sum(len(group.entries) for group in links)
            with_these = domains | self._new_domains(settle, links)
            if size > room or len(with_these) > GROUPS_PER_CALL:
                known = 0
                epoch, is_refused = await self.put(settle.token, settle.links)
                if is_refused:
                    refused.append(settle.token)
                    continue
                links = ()
            else:
                room, domains = room - size, with_these
            packed.append(self._pack_settle(settle, links, epoch=epoch, known=known))
        ends = pack_ends((each, self._metered(each)) for each in plain)
        return PackedSettles(ends, packed, refused)

    async def put(self, token: str, links: Sequence[Links]) -> PutResult:
        """Put links below a held page."""
        inherited = self._inherited.get(token, _UNKNOWN)
        first_epoch = None
        new = self._link_cache.new_domains(inherited.crawl, links)
        for groups in split_links(links, LINKS_PER_CALL, new):
            request = [
                self._worker,
                token,
                none_as(inherited.domain_max_pages),
                none_as(inherited.max_pages),
                inherited.pack_links(self._sites.file(groups), self._spiderid),
            ]
            answer = await self._scripts.run("put", pack(request))
            epoch, is_refused = unpack(answer)
            first_epoch = epoch if first_epoch is None else first_epoch
            if is_refused:
                return PutResult(first_epoch, is_refused=True)
            self._link_cache.learn_domains(
                epoch, inherited.crawl, [group.domain for group in groups]
            )
        return PutResult(first_epoch, is_refused=False)

    def inherited(self, token: str) -> Inheritance | None:
        """Return what children of a held page inherit; None for an unknown lease."""
        return self._inherited.get(token)

    def _leave_out_known(self, settle: Settle) -> tuple[Sequence[Links], int]:
        crawl, links = self._inherited.get(settle.token, _UNKNOWN).crawl, settle.links
        new, known = self._link_cache.new_of(crawl, links)
        if known and (links[0].linked or links[0].standing):
            again = self._link_cache.sent_again(crawl, links, new)
            return [*new, *again], known - amount_of(again)
        return new, known

    def _metered(self, settle: Settle) -> Metered | None:
        if settle.outcome is Outcome.SKIPPED:
            return None
        return self._inherited.get(settle.token, _UNKNOWN).metered

    def _new_domains(self, settle: Settle, links: Sequence[Links]) -> set[tuple[bytes, str]]:
        crawl = self._inherited.get(settle.token, _UNKNOWN).crawl
        return {(crawl, domain) for domain in self._link_cache.new_domains(crawl, links)}

    def _pack_settle(
        self, settle: Settle, links: Sequence[Links], *, epoch: int | None, known: int
    ) -> list[object]:
        inherited = self._inherited.get(settle.token, _UNKNOWN)
        self._packed[settle.token] = links
        return [
            settle.token,
            settle.outcome.value,
            settle.reason,
            none_as(settle.sent_ms),
            settle.body_bytes,
            none_as(inherited.domain_max_pages),
            none_as(inherited.max_pages),
            inherited.pack_links(self._sites.file(links), self._spiderid),
            _counts(settle, known),
            none_as(epoch),
            _flat(settle.spilled),
            *_optional(settle, self._metered(settle)),
        ]


def _optional(settle: Settle, metered: Metered | None) -> list[Sequence[object]]:
    """Return the last parts of a settle: those that most do not have."""
    parts: list[Sequence[object]] = [_flat(settle.need), _flat(settle.refused), metered or ()]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _flat(pairs: Mapping[Any, int]) -> list[object]:
    return [part for pair in pairs.items() for part in pair]


def _counts(settle: Settle, known: int) -> list[object]:
    """Return the counters of a page's crawl, each before what is added; ``known``: links."""
    filtered = Counter(settle.filtered) + Counter(duplicate=known)
    counts: list[object] = []
    for reason, links in filtered.items():
        counts += (f"z:{reason}", links)
    if settle.dropped:
        counts += (f"d:{settle.dropped}", 1)
    if settle.is_reserved:
        counts += ("r:reserved", 1)
    if settle.answered:
        counts += (f"a:{settle.answered}", -1)
    if settle.charged:
        counts += (f"p:{settle.charged.currency}", settle.charged.millionths)
    return counts
