"""Dead letters: pages that could not be fetched, reported as failures and kept as requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b

from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.crawl import ANSWER_PAGE, Entry, Lease
from crawlstream.model.credentials import covers
from crawlstream.model.effects import OutboxRecord
from crawlstream.model.event import PageFailed, PageReply, Rejection
from crawlstream.model.recurring.validators import CONDITIONS
from crawlstream.model.scope import SitemapUse
from crawlstream.model.url import entry_id, fingerprint
from crawlstream.model.web.priorities import rules_below
from crawlstream.model.web.priority_fields import rule_fields
from crawlstream.model.web.url_parameters import parameter_fields
from crawlstream.wire import events, jsontext, rejects, replies

_NOT_A_FIELD = frozenset({"answer", "seed_url", "site", "uuid"})
"""Fields of a profile that the request of a dead letter does not have."""
_CREDENTIALS = frozenset({"cookie", "cookies", "headers"})
"""Fields that only the site of the crawl's seed receives."""
_OF_SPIDERS = ("callback", "meta", "headers", "cookies", "salt")
"""Fields of an entry from its spider or redirects; a client's request cannot have them."""

_WHY = {
    "killed_worker": "killed each worker that held it",
    "hold_timeout": "was completed by none of the crawlers that leased it",
    "no_worker": "waited too long: no crawler of its spider is running",
    "domain_unreachable": "waited too long: its domain did not answer",
}


def dead_letter(owed: OutboxRecord, lease: Lease, outbound: Outbound) -> Sequence[Out]:
    """The event ``page_failed``, and a record on ``<prefix>.rejected`` that can be fed again.

    A client that waits for the page gets a reply.
    """
    entry = lease.entry
    mark = fingerprint(entry.url, entry.method, entry.body or b"", entry.salt or "")
    failed = PageFailed(
        id=entry_id(owed.crawl, owed.run, mark, entry.origin),
        crawl=owed.crawl,
        run=owed.run,
        server_time=owed.server_time,
        url=entry.url,
        reason=owed.reason,
        attempts=lease.attempt,
        depth=entry.depth,
        parent_url=entry.parent_url,
        uuid=lease.profile.uuid,
        firing=owed.firing,
    )
    rejection = Rejection(
        reason=owed.reason,
        errors=[f"$.url: {entry.url} {_WHY.get(owed.reason, owed.reason)}", *_losses(owed, lease)],
        raw=_as_request(owed, lease),
    )
    key, topics = failed.id.encode(), outbound.topics
    return [
        Out(topics.events, events.encode(failed), key),
        Out(topics.rejected, rejects.encode(rejection), key),
        *_reply(failed, lease, outbound),
    ]


def is_answered(lease: Lease) -> bool:
    """Return whether a client waits for a page: it is a seed that asks for a reply."""
    return lease.profile.answer == ANSWER_PAGE and lease.entry.origin is not None


def _reply(failed: PageFailed, lease: Lease, outbound: Outbound) -> Sequence[Out]:
    if not is_answered(lease):
        return ()
    reply = PageReply(
        uuid=lease.profile.uuid or "",
        crawl=failed.crawl,
        run=failed.run,
        server_time=failed.server_time,
        id=failed.id,
        url=failed.url,
        reason=failed.reason,
        attempts=failed.attempts,
    )
    return outbound.reply(failed.crawl.appid, replies.page(reply))


def lost_spill(owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
    """Report pages that were spilled to Kafka and are lost: which pages is unknown."""
    crawl = FrontierKeys.crawl_field(owed.crawl)
    problem = f"$: {owed.links} spilled pages of run {owed.run} of {crawl} were lost in Kafka"
    rejection = Rejection(reason=owed.reason, errors=[problem], raw=None, topic=topics.overflow)
    key = f"{crawl}:{owed.run}:{owed.spill}".encode()
    return [Out(topics.rejected, rejects.encode(rejection), key)]


def lost_on_shelf(owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
    """Report pages of a long queue that the shelf has lost: which pages is unknown."""
    crawl = FrontierKeys.crawl_field(owed.crawl)
    problem = (
        f"$: {owed.links} shelved pages of run {owed.run} of {crawl} in {owed.domain} were lost"
        " on the shelf"
    )
    rejection = Rejection(reason=owed.reason, errors=[problem], raw=None)
    key = f"{crawl}:{owed.run}:{owed.spill}".encode()
    return [Out(topics.rejected, rejects.encode(rejection), key)]


def put_aside(owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
    """Keep an entry that this version cannot read, such as one of another version, unchanged."""
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


def _losses(owed: OutboxRecord, lease: Lease) -> Iterator[str]:
    """Return sentences about the parts of the page that a replay does not restore.

    Conditions are not listed: without them the whole page comes.
    """
    entry = lease.entry
    headers = {name: each for name, each in entry.headers.items() if name.lower() not in CONDITIONS}
    entry = replace(entry, headers=headers)
    lost = [name for name in _OF_SPIDERS if getattr(entry, name) and not _is_of_chain(entry, name)]
    if entry.body and entry.body.decode(errors="replace").encode() != entry.body:
        lost.append("binary body")
    if lost:
        yield f"$: replayed, it is a seed without the {', '.join(lost)} that its page had"
    if owed.spiderid not in {"", owed.crawl.spiderid}:
        yield f"$.spiderid: replayed, it is a crawl of the spider {owed.spiderid}, as its page was"


def _is_of_chain(entry: Entry, field: str) -> bool:
    """Return whether a field is there only because a seed's redirect led to the page."""
    return field == "salt" and entry.origin is not None


def _as_request(owed: OutboxRecord, lease: Lease) -> bytes:
    """Return a crawl request that fetches the page again, with what is left of its depth.

    It is for the spider that the page was for. As the seed's site becomes that of the page, it has
    no credentials that the page would not have received.
    """
    site = lease.profile.site
    left_out = _NOT_A_FIELD
    if site is not None and not covers(site, lease.entry.url):
        left_out |= _CREDENTIALS
    inherited = asdict(lease.profile)
    fields = {name: value for name, value in inherited.items() if name not in left_out}
    request = {
        "appid": owed.crawl.appid,
        "crawlid": owed.crawl.crawlid,
        "spiderid": owed.spiderid or owed.crawl.spiderid,
        "url": lease.entry.url,
        "priority": min(max(lease.priority, 1), 100),
        "method": lease.entry.method,
        "body": lease.entry.body and lease.entry.body.decode(errors="replace"),
    }
    if rules := rules_below(lease.profile.priorities or (), lease.entry.depth):
        fields["priorities"] = [rule_fields(rule) for rule in rules]
    else:
        fields.pop("priorities")
    if names := lease.profile.parameters:
        fields["parameters"] = parameter_fields(names)
    fields |= request | {"maxdepth": max(lease.profile.maxdepth - lease.entry.depth, 0)}
    leads_to_sitemaps = lease.entry.origin or lease.entry.is_sitemap
    if not leads_to_sitemaps and fields.pop("sitemaps") == SitemapUse.ONLY:
        fields["maxdepth"] = 0
    if lease.entry.moved_to and lease.profile.allowed_domains:
        fields["allowed_domains"] = [*lease.profile.allowed_domains, lease.entry.moved_to]
    return jsontext.dumps({name: value for name, value in fields.items() if value is not None})
