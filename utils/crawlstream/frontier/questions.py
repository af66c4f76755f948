"""Questions to the frontier, answered page by page, so that none of them holds others up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crawlstream.frontier import packing
from crawlstream.frontier.care import Run
from crawlstream.keys import FrontierKeys
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.tasks import let_leave

BANDS_PER_CALL = 200
"""Bands whose lengths are read in one script: keeps it below 2 ms of CPU."""
LEDGERS_PER_CALL = 100
"""Crawls whose counters are read in one script, for the same reason."""
LISTED_BYTES = 8_000_000
"""What domains may take in one answer, as JSON: about what a record on Kafka may hold."""
_BESIDE_NAME = 60
"""Bytes of a listed domain beside its name."""


@dataclass(slots=True)
class Room:
    """How much more may be listed in an answer, whatever the number of crawls it is about."""

    left: int = LISTED_BYTES


async def state_of(run: Run, name: str, room: Room | None) -> CrawlState | None:
    """The ledger of a crawl's latest run; None for an unknown one.

    Its domains are listed as far as there is room; None: not at all.
    """
    domains: dict[str, DomainBacklog] = {}
    is_listed = room is not None and room.left > 0
    page = _page(run, name, "0" if is_listed else "")
    while True:
        answer = packing.unpack_text(await page)
        if not answer or not answer[0]:
            return None
        record, cursor, listed, blocked = answer
        is_more = cursor != "0" and room is not None and room.left > 0
        if is_more:
            page = _page(run, name, cursor)
            # Redis reads on while this page is unpacked.
            await let_leave()
        # A scan may show a domain twice.
        found = packing.backlog(listed, blocked)
        if room:
            new = [name for name in found if name not in domains]
            room.left -= sum(map(len, new)) + _BESIDE_NAME * len(new)
        domains |= found
        if not is_more:
            state = _state(record, domains)
            is_left_out = room is not None and not is_listed and state.queued > 0
            return replace(state, is_cut=cursor != "0" or is_left_out)


async def states_of(run: Run, names: Sequence[str], room: Room | None) -> Sequence[CrawlState]:
    """The ledgers of those crawls that are known, by name; see ``state_of``."""
    states: list[CrawlState] = []
    for at in range(0, len(names), LEDGERS_PER_CALL):
        answer = packing.unpack_text(await run("ledgers", *names[at : at + LEDGERS_PER_CALL]))
        states += [_state(record, {}) for record in answer if record]
    if room is None:
        return states
    full = [await _with_domains(run, state, room) for state in states]
    return [state for state in full if state is not None]


async def _with_domains(run: Run, state: CrawlState, room: Room) -> CrawlState | None:
    """A crawl anew, with its domains if anything waits there."""
    if not state.queued:
        return state
    return await state_of(run, FrontierKeys.crawl_field(state.crawl), room)


def _state(record: Sequence[str], domains: Mapping[str, DomainBacklog]) -> CrawlState:
    fields = dict(zip(record[::2], record[1::2], strict=True))
    return packing.crawl_state(fields, list(domains.values()))


def _page(run: Run, name: str, cursor: str) -> asyncio.Future[object]:
    return asyncio.ensure_future(run("info", name, cursor, BANDS_PER_CALL))
