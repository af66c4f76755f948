"""Records of the frontier's streams: actions that wait for an answer, and the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import structlog

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import OutboxRecord, OutboxSchedule, PendingAction
from crawlstream.model.egress.render import spider_of
from crawlstream.model.statuses import PAGE_ENDS
from crawlstream.wire import stored
from crawlstream_frontier.codec.entries import profile_from, split_entry
from crawlstream_frontier.codec.schedules import firing_from, is_of_schedule, unpack_outbox_schedule
from crawlstream_frontier.codec.state import ANSWERS, REASONS, by_reason
from crawlstream_frontier.codec.values import crawl_from, pairs, unpack

log = structlog.get_logger()
Fields = Mapping[bytes, bytes]

COUNTERS = ("admitted", *PAGE_ENDS, "bytes")
"""Counters of a run that has ended, in the order of the ledger."""


def unpack_action(id_: bytes, fields: Fields, attempts: int) -> PendingAction:
    """Return an action; ``attempts`` is the number of reads, including this one."""
    purged, run = fields.get(b"purged"), fields.get(b"run")
    return PendingAction(
        id=id_.decode(),
        name=fields[b"name"].decode(),
        request=fields[b"request"],
        purged=None if purged is None else int(purged),
        run=None if run is None else int(run),
        attempts=attempts,
        outcome=fields.get(b"outcome", b"").decode(),
    )


def unpack_outbox_record(
    id_: bytes, fields: Fields, _attempts: int
) -> OutboxRecord | OutboxSchedule:
    """Return a record of the outbox; the number of reads does not matter."""
    details = unpack(fields[b"record"])
    if is_of_schedule(details):
        return unpack_outbox_schedule(id_.decode(), details)
    record = pairs(details.get(b"fields", ()))
    counters = {name: int(record.get(name, 0)) for name in COUNTERS} if record else {}
    reasons = {kind: by_reason(record, letter) for kind, letter in REASONS.items() if record}
    uuid = details.get(b"uuid")
    positions = pairs(details.get(b"positions", ()))
    return OutboxRecord(
        id=id_.decode(),
        kind=details[b"kind"].decode(),
        crawl=crawl_from(details[b"name"]),
        run=details[b"run"],
        server_time=details[b"time"],
        counters=counters,
        reasons=reasons,
        started_at=int(record.get("started", 0)) / 1000,
        positions={name: int(at) for name, at in positions.items()},
        generation=details.get(b"generation"),
        redis_epoch=details.get(b"life", 0),
        firing=firing_from(details.get(b"occasion")),
        seen=dict(zip(*[iter(details.get(b"seen", ()))] * 2, strict=True)),
        budget=_budget(details, record),
        remember=int(details[b"remember"]) if details.get(b"remember") else None,
        lease=_buried(details) if b"entry" in details else None,
        entry=details.get(b"entry", b""),
        spiderid=spider_of(unquote(details.get(b"spider", b"").decode())),
        spill=details.get(b"spill", b"").decode(),
        links=details.get(b"links", 0),
        reason=details.get(b"reason", b"").decode(),
        domain=details.get(b"domain", b"").decode(),
        uuid=uuid.decode() if uuid else None,
        unanswered=[client for client, due in by_reason(record, ANSWERS).items() if due > 0],
    )


def _budget(details: Mapping[bytes, Any], ledger: Mapping[str, str]) -> str:
    """Return the budget that has ended a run, as its coordinator or its only partition has it."""
    told = details.get(b"budget")
    return told.decode() if told else ledger.get("budget", "")


def _buried(details: Mapping[bytes, Any]) -> Lease | None:
    """Return the entry of a dead letter as its last lease; None if it cannot be read."""
    try:
        retries, _, body = split_entry(details[b"entry"])
        entry, profile = stored.decode_entry(body), profile_from(details[b"profile"])
    except ValueError:
        log.exception("publish", outcome="unreadable", name=details[b"name"].decode())
        return None
    return Lease(
        token="",
        crawl=crawl_from(details[b"name"]),
        run=details[b"run"],
        domain=details[b"domain"].decode(),
        priority=details[b"priority"],
        entry=entry,
        profile=profile,
        retries=retries,
        issued_at=0,
        firing=firing_from(details.get(b"occasion")),
    )
