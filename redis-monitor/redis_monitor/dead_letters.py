"""A page that nobody could fetch: told as a failure, kept as a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import blake2b

from crawlstream.bus.records import Out
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.crawl import Hold
from crawlstream.model.effects import OutboxRecord
from crawlstream.model.event import PageFailed, Rejection
from crawlstream.model.url import entry_id, fingerprint
from crawlstream.wire import events, jsontext, rejects

_NOT_A_FIELD = {"seed_url", "site", "uuid"}
"""What a profile has beyond a crawl request."""

_WHY = {
    "killed_worker": "killed each worker that held it",
    "hold_timeout": "was completed by none of the crawlers that leased it",
    "no_worker": "waited too long: no crawler of its spider is running",
    "domain_unreachable": "waited too long: its domain did not answer",
}


def dead_letter(owed: OutboxRecord, hold: Hold, topics: Topics) -> Sequence[Out]:
    """The event ``page_failed``, and a record on ``<prefix>.rejected`` that can be fed again."""
    entry = hold.entry
    mark = fingerprint(entry.url, entry.method, entry.body or b"", entry.salt or "")
    failed = PageFailed(
        id=entry_id(owed.crawl, owed.run, mark, entry.origin),
        crawl=owed.crawl,
        run=owed.run,
        server_time=owed.server_time,
        url=entry.url,
        reason=owed.reason,
        attempts=hold.attempt,
        depth=entry.depth,
        parent_url=entry.parent_url,
        uuid=hold.profile.uuid,
        firing=owed.firing,
    )
    rejection = Rejection(
        reason=owed.reason,
        errors=[f"$.url: {entry.url} {_WHY.get(owed.reason, owed.reason)}"],
        raw=_as_request(owed, hold),
    )
    key = failed.id.encode()
    return [
        Out(topics.events, events.encode(failed), key),
        Out(topics.rejected, rejects.encode(rejection), key),
    ]


def lost_spill(owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
    """Pages that waited in Kafka and are not there any more: nobody knows which they were."""
    crawl = FrontierKeys.crawl_field(owed.crawl)
    problem = f"$: {owed.links} spilled pages of run {owed.run} of {crawl} were lost in Kafka"
    rejection = Rejection(reason=owed.reason, errors=[problem], raw=None, topic=topics.overflow)
    key = f"{crawl}:{owed.run}:{owed.spill}".encode()
    return [Out(topics.rejected, rejects.encode(rejection), key)]


def lost_on_shelf(owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
    """Pages of a long queue that the shelf does not have any more: nobody knows which they were."""
    crawl = FrontierKeys.crawl_field(owed.crawl)
    problem = (
        f"$: {owed.links} shelved pages of run {owed.run} of {crawl} in {owed.domain} were lost"
        " on the shelf"
    )
    rejection = Rejection(reason=owed.reason, errors=[problem], raw=None)
    key = f"{crawl}:{owed.run}:{owed.spill}".encode()
    return [Out(topics.rejected, rejects.encode(rejection), key)]


def put_aside(owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
    """What this version cannot read, such as an entry of another one: kept as it is."""
    crawl = FrontierKeys.crawl_field(owed.crawl)
    problem = f"$: a {owed.kind} of run {owed.run} of {crawl} that this version cannot read"
    rejection = Rejection(
        reason=owed.reason or "unreadable", errors=[problem], raw=owed.entry or None
    )
    name = blake2b(owed.entry or owed.kind.encode(), digest_size=16).hexdigest()
    key = f"{crawl}:{owed.run}:{name}".encode()
    return [Out(topics.rejected, rejects.encode(rejection), key)]


def cut(record: Out, topics: Topics) -> Out | None:
    """In place of a record that its topic does not take; None where nothing is left to cut."""
    problem = f"$: the record has {len(record.value)} bytes, more than topic {record.topic} accepts"
    if record.topic != topics.rejected:
        rejection = Rejection(reason="record_too_large", errors=[problem], raw=None)
    else:
        rejection = rejects.decode(record.value)
        if rejection.raw is None:
            return None
        rejection = replace(rejection, errors=[*rejection.errors, problem], raw=None)
    return Out(topics.rejected, rejects.encode(rejection), record.key)


def _as_request(owed: OutboxRecord, hold: Hold) -> bytes:
    """A crawl request that would fetch the page again, with what is left of its depth."""
    inherited = asdict(hold.profile)
    fields = {name: value for name, value in inherited.items() if name not in _NOT_A_FIELD}
    request = {
        "appid": owed.crawl.appid,
        "crawlid": owed.crawl.crawlid,
        "spiderid": owed.crawl.spiderid,
        "url": hold.entry.url,
        "priority": min(max(hold.priority, 1), 100),
        "method": hold.entry.method,
        "body": hold.entry.body and hold.entry.body.decode(errors="replace"),
    }
    fields |= request | {"maxdepth": max(hold.profile.maxdepth - hold.entry.depth, 0)}
    return jsontext.dumps({name: value for name, value in fields.items() if value is not None})
