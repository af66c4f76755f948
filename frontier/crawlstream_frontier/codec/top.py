"""Pages that are requested next, from the answer of the script ``top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.inspection import NextPage, NextPages, NextReason
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.wire import stored
from crawlstream_frontier.codec.entries import split_entry
from crawlstream_frontier.link_rules.host_budgets import is_lower
from crawlstream_frontier.link_rules.promotion import is_promoted


def next_pages(crawl: CrawlKey, answer: Sequence[Any], most: int) -> NextPages | None:
    """Return the first ``most`` pages of an answer; None for an unknown crawl."""
    if not answer:
        return None
    run, state, is_complete, domains, delayed, profiles, shift = answer
    kept = _profiles(dict(profiles) if profiles else {})
    pages = [page for domain in domains for page in _in_domain(domain, kept, int(shift))]
    pages += [_delayed(each, kept) for each in delayed]
    return NextPages(
        crawl=crawl,
        run=run,
        state=state.decode(),
        pages=in_order(pages)[:most],
        is_complete=is_complete,
    )


def in_order(pages: Sequence[NextPage]) -> list[NextPage]:
    """Return pages by the time when they are due, then by priority; pages never due come last."""
    return sorted(pages, key=lambda page: (page.due_ms is None, page.due_ms or 0, -page.priority))


def merged(parts: Sequence[NextPages], most: int) -> NextPages | None:
    """Return the first ``most`` pages of the answers of several partitions; None without any."""
    if not parts:
        return None
    return replace(
        max(parts, key=lambda part: part.run),
        pages=in_order([page for part in parts for page in part.pages])[:most],
        is_complete=all(part.is_complete for part in parts),
    )


def _profiles(packed: Mapping[Any, bytes]) -> Mapping[int, Profile]:
    found = {}
    for number, body in packed.items():
        if body:
            found[int(number)] = stored.decode_profile(body)
    return found


def _in_domain(
    domain: Sequence[Any], profiles: Mapping[int, Profile], shift: int
) -> Iterator[NextPage]:
    spider, name, due_ms, rule, bands = domain
    gap_ms = _gap_ms(rule)
    place = 0
    for ahead, standing, entries in zip(*[iter(bands)] * 3, strict=True):
        for packed in entries:
            page = _page(packed, profiles, int(standing) - shift)
            due = None if due_ms < 0 else int(due_ms + (ahead + place) * gap_ms)
            place += 1
            yield replace(
                page,
                domain=name.decode(),
                spiderid=unquote(spider.decode()),
                priority=int(standing),
                due_ms=due,
            )


def _gap_ms(rule: bytes) -> float:
    """Return the time from one request to the next by the rule of a domain; 0: none is known."""
    applied = ThrottleRule.of_applied(rule.decode()) if rule else None
    if applied is None or not applied.effective_hits:
        return 0
    return 1000 * applied.window_s / applied.effective_hits


def _delayed(delayed: Sequence[Any], profiles: Mapping[int, Profile]) -> NextPage:
    spider, domain, due_ms, standing, packed = delayed
    return replace(
        _page(packed, profiles),
        domain=domain.decode(),
        spiderid=unquote(spider.decode()),
        priority=int(standing),
        due_ms=int(due_ms),
    )


def _page(packed: bytes, profiles: Mapping[int, Profile], priority: int = 0) -> NextPage:
    """Return the page of an entry, without what the queue knows of it."""
    retries, number, body = split_entry(packed)
    entry = stored.decode_entry(body)
    profile = profiles.get(number)
    reason, rule = _reason(entry, profile)
    if profile and profile.score and is_promoted(priority):
        reason, rule = NextReason.PROMOTED, None
    if profile and profile.host_budget and is_lower(priority):
        reason, rule = NextReason.HOST_BUDGET, None
    return NextPage(
        url=entry.url,
        domain="",
        spiderid="",
        priority=0,
        depth=entry.depth,
        attempt=retries + 1,
        due_ms=None,
        reason=reason,
        rule=rule,
        parent_url=entry.parent_url,
    )


def _reason(entry: Entry, profile: Profile | None) -> tuple[NextReason, int | None]:
    """Return why an entry has its priority, and the number of the rule."""
    if entry.redirect_urls:
        return NextReason.REDIRECT, None
    if entry.origin is not None:
        return NextReason.SEED, None
    rules = profile.priorities if profile else None
    place = _place_of(rules, entry) if rules else None
    return (NextReason.LINK, None) if place is None else (NextReason.RULE, place + 1)


def _place_of(rules: tuple[PriorityRule, ...], entry: Entry) -> int | None:
    """Return the place of the rule that a waiting link fits; None if that is not certain.

    The text of a link is not stored, so a rule with ``text`` may have decided.
    """
    from crawlstream_frontier.link_rules.link_priorities import (  # noqa: PLC0415  loads RE2, where it is needed
        priorities_by,
    )

    without_texts = tuple(replace(rule, text=None) for rule in rules)
    try:
        place = priorities_by(rules).place_of(entry.url, entry.depth)
        possible = priorities_by(without_texts).place_of(entry.url, entry.depth)
    except InvalidUrl:
        return None
    return place if place == possible else None
