"""Links to other partitions of the frontier, on their way through Kafka: docs/partitions.md.

A page is held until Kafka has those of its links that lie in other partitions; then it settles with
the others, and with its *need*: how far each partition must have read before the run can end. Links
of several pages share records, as long as they have the same origin and the same target. A link
that was sent before is left out, also where its own partition has it: the need covers all that this
process has sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.publish.publisher import GivenUp, Publisher
from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.records import NO_OFFSET, Out, RecordTooLarge
from crawlstream.keys import FrontierKeys, Partitions
from crawlstream.model.effects import Links, Release, Settle
from crawlstream.model.partitions.messages import LinkOrigin
from crawlstream_frontier.codec.link_batch import amount_of
from crawlstream_frontier.codec.link_records import pack_links
from crawlstream_frontier.worker.link_cache import LinkCache

GATHER_S = 0.08
"""How long links wait for those of other pages: a partition takes twenty of one domain at a quarter
of what they cost one by one."""
LINKS_PER_BATCH = 2_000
"""Links that are sent at once, without waiting for those of further pages."""
_EPOCH = 0
"""Kafka goes not back: what it has been sent is never undone."""

log = structlog.get_logger()


class _Kind(NamedTuple):
    """Properties that all links of a group share."""

    domain: str
    priority: int
    spiderid: str | None
    counts: bool
    linked: int
    standing: str


@dataclass(slots=True)
class _Batch:
    """Links that are sent together."""

    links: defaultdict[tuple[int, LinkOrigin], dict[_Kind, dict[str, bytes]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By target and origin, by what a group has in common, by fingerprint."""
    scopes: defaultdict[bytes, list[Links]] = field(default_factory=lambda: defaultdict(list))
    """All that pages have brought, by the scope in which it need not be sent again."""
    count: int = 0
    too_large: int = 0
    """Records, of one link each, that Kafka does not take, and that no page has told of."""
    sent: asyncio.Future[None] = field(default_factory=lambda: _loop().create_future())
    """Done when Kafka has all others."""

    def add(self, target: int, origin: LinkOrigin, group: Links) -> int:
        """Take a group of a page; answers how many of them another page has brought."""
        kind = _kind_of(group)
        known = self.links[target, origin].setdefault(kind, {})
        before = len(known)
        for fingerprint, entry in zip(group.fingerprints, group.entries, strict=True):
            known.setdefault(fingerprint, entry)
        new = len(known) - before
        self.count += new
        return len(group.fingerprints) - new

    def records(self) -> list[tuple[int, bytes]]:
        """All of them, packed, each record with its target."""
        return [
            (target, value)
            for (target, origin), groups in self.links.items()
            for value in pack_links(origin, [_links(kind, some) for kind, some in groups.items()])
        ]


class LinkTopic:
    """``<prefix>.links``: a Kafka partition for each partition of the frontier."""

    def __init__(self, publisher: Publisher, kafka: Kafka, topic: str, *, group: str) -> None:
        """``group`` reads it."""
        self.needs: dict[int, int] = {}
        """By partition, the offset behind the last record that this process has written there."""
        self._publisher = publisher
        self._kafka = kafka
        self._topic = topic
        self._group = group

    async def append(self, records: Sequence[tuple[int, bytes]]) -> Sequence[bytes]:
        """Write records, each to its partition; those that Kafka does not take come back.

        GivenUp: the worker is to end, and some are not there.
        """
        outs = [Out(self._topic, value, partition=target) for target, value in records]
        refused: Sequence[Out] = ()
        try:
            offsets = await self._publisher.links(outs)
        except RecordTooLarge as error:
            refused, offsets = error.records, [NO_OFFSET] * len(outs)
        for (target, _), offset in zip(records, offsets, strict=True):
            self._raise(target, offset + 1)
        if NO_OFFSET in offsets:
            await self._look_at_ends({target for target, _ in records})
        return [out.value for out in refused]

    def _raise(self, target: int, need: int) -> None:
        self.needs[target] = max(self.needs.get(target, 0), need)

    async def _look_at_ends(self, targets: Iterable[int]) -> None:
        """Kafka has not said where something is: it is before the end that the topic has now."""
        found = await self._publisher.insist(
            "kafka", lambda: partition_offsets(self._kafka, self._topic, group=self._group)
        )
        for target in targets:
            self._raise(target, found[target].end)


class LinkSender:
    """Writes the links of pages to Kafka that lie elsewhere, then lets their pages settle."""

    def __init__(
        self,
        topic: LinkTopic,
        partitions: Partitions,
        *,
        origin_of: Callable[[Page], LinkOrigin | None],
        leases: Leases,
        tasks: Tasks,
    ) -> None:
        """``origin_of`` returns what the links of a held page inherit."""
        self._topic = topic
        self._partitions = partitions
        self._origin_of = origin_of
        self._leases = leases
        self._tasks = tasks
        self._batch: _Batch | None = None
        self._sent = LinkCache()

    def takes(self, page: Page) -> bool:
        """Return whether links of a page may go through Kafka: with one partition only if full."""
        return self._partitions.number > 1 or self._leases.of(page.lease.partition).is_crowded

    def begin(self, page: Page, settle: Settle) -> None:
        """Send in a task of its own; the page counts as held until its settle is reported."""
        origin = self._origin_of(page)
        if origin is None:
            # Another worker has it; if this one leases it again, it must not end without its links.
            log.warning("links", outcome="released", token=settle.token)
            self._leases.spilled(page, Release(token=page.token, sent_ms=page.sent_ms))
            return
        scope = _scope_of(page, origin)
        new, again = self._sent.new_of(scope, settle.links)
        if again and (settle.links[0].linked or settle.links[0].standing):
            more = self._sent.sent_again(scope, settle.links, new)
            new, again = [*new, *more], again - amount_of(more)
        own, others = self._apart(page, new)
        batch = self._open_batch() if others else None
        if batch:
            batch.scopes[scope] += others
            again += sum(
                batch.add(self._partitions.of(group.domain), origin, group) for group in others
            )
        filtered = Counter(settle.filtered) + Counter(duplicate=again)
        settle = replace(settle, links=own, filtered=filtered)
        if batch is None:
            self._end(page, settle)
            return
        self._tasks.spawn(self._settle(page, settle, batch))
        if batch.count >= LINKS_PER_BATCH:
            self._send(batch)

    def _apart(self, page: Page, links: Iterable[Links]) -> tuple[list[Links], Sequence[Links]]:
        """Return the links that the settle of a page carries, and those for Kafka."""
        own, others = list[Links](), list[Links]()
        for group in links:
            target = self._partitions.of(group.domain)
            is_own = target == page.lease.partition and not self._leases.of(target).is_crowded
            (own if is_own else others).append(group)
        return own, others

    def _open_batch(self) -> _Batch:
        if self._batch is None:
            batch = self._batch = _Batch()
            _loop().call_later(GATHER_S, self._send, batch)
        return self._batch

    def _send(self, batch: _Batch) -> None:
        if self._batch is batch:
            self._batch = None
            self._tasks.spawn(self._write(batch))

    async def _write(self, batch: _Batch) -> None:
        records = batch.records()
        try:
            refused = await self._topic.append(records)
        except BaseException as error:
            batch.sent.set_exception(error)
            batch.sent.exception()
            raise
        log.info("links", records=len(records), links=batch.count, refused=len(refused))
        batch.too_large = len(refused)
        for scope, links in batch.scopes.items() if not refused else ():
            self._sent.learn_links(_EPOCH, scope, links)
        batch.sent.set_result(None)

    async def _settle(self, page: Page, settle: Settle, batch: _Batch) -> None:
        try:
            await asyncio.shield(batch.sent)
        except GivenUp as error:
            # The worker is about to end; its page will be fetched again.
            log.warning("links", outcome="given_back", error=str(error))
            return
        failpoint("after_links")
        filtered = Counter(settle.filtered) + Counter(too_large=batch.too_large)
        batch.too_large = 0
        self._end(page, replace(settle, filtered=filtered))

    def _end(self, page: Page, settle: Settle) -> None:
        self._leases.spilled(page, replace(settle, need=dict(self._topic.needs)))


def _kind_of(group: Links) -> _Kind:
    return _Kind._make(getattr(group, name) for name in _Kind._fields)


def _scope_of(page: Page, origin: LinkOrigin) -> bytes:
    """Return where a link that was sent once need not be sent again: a run, under the same limits.

    A limit that is raised may let in what was refused; between runs what was seen may be forgotten.
    """
    name = FrontierKeys.crawl_field(origin.context.crawl)
    limits = f"{origin.domain_max_pages} {origin.max_pages}"
    return f"{name} {origin.context.generation} {page.lease.run} {limits}".encode()


def _links(kind: _Kind, some: Mapping[str, bytes]) -> Links:
    return Links(**kind._asdict(), fingerprints=[*some], entries=[*some.values()])


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
