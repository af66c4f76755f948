"""JSON views of values: the same shape for commands and REST.

``crawl``
    The three ids, the ledger of the latest run, values computed from it (``pending``, ``residual``,
    ``held_back``), and ``domains`` if requested. ``problem`` is a sentence on why it stands or has
    brought nothing, or null; ``waits_for`` are the spiders of which it lacks a crawler.
``frontier``
    Counters of the frontier. As in ``crawl``, ``missing_partitions`` has the numbers of partitions
    that did not answer, if any: their entries are not counted.
``throttle_table``
    ``default``, ``domains``, ``blacklist``; a rule has the fields of ZooKeeper's table.
``domain``
    State of a domain, and the values of its rule.
``url``
    An address with its ``identity`` and its state in each crawl that has it, each with a
    ``summary`` for people; its ``domain`` as above.
``run``, ``comparison``
    A run of a crawl; two runs, the number of pages by kind of change, and the first of these pages.
``schedule``
    Definition and progress of a schedule; ``next`` is the time of its next firing, or null.
``process``
    State of a running process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from crawlstream.model.inspection import (
    DomainReport,
    NextPage,
    NextPages,
    PagePlace,
    PageReport,
    Sighting,
    UrlReport,
)
from crawlstream.model.process import Process
from crawlstream.model.recurring.schedule import ScheduleState
from crawlstream.model.recurring.times import next_due
from crawlstream.model.run_history import Comparison, CrawlRun
from crawlstream.model.state import CrawlState, FrontierState
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule, ThrottleTable
from crawlstream.model.url import canonical
from crawlstream.model.web.refused_families import as_records
from crawlstream.model.web.throttle_groups import GROUP_LIMITS, Group
from crawlstream.model.words import condition
from crawlstream.model.words.quantities import by_reason
from crawlstream.wire import schedules

View = Mapping[str, object]
"""JSON object, before it is encoded."""


def schedule(state: ScheduleState, now: int) -> View:
    """Return a schedule; times are epoch seconds, or null if there is none."""
    told = state.schedule
    last = asdict(state.last_crawl) if state.last_crawl else None
    return {
        "appid": told.appid,
        "schedule": told.name,
        **schedules.definition(told),
        "paused": state.is_paused,
        "since": state.since,
        "next": next_due(told, max(state.last, state.since, now)),
        "fired_at": state.fired_at or None,
        "last_crawl": last,
        "skipped_at": state.skipped_at or None,
        "reason": state.reason or None,
        "detail": state.detail or None,
        "fired": state.fired,
        "skipped": state.skipped,
        "skips_in_a_row": state.skips,
        "seeds_repeated": state.repeated,
    }


def crawl(state: CrawlState, spiders: condition.Spiders = None) -> View:
    """Return a crawl, its progress, why it stands, and its backlog by domain.

    ``spiders`` are those of the running crawlers; None: unknown.
    """
    fields = _told(asdict(state))
    del fields["refused_by_family"]
    return {
        **fields.pop("crawl"),
        **fields,
        "charged": charged_as_texts(state.charged),
        "budgets": dict(state.spending),
        "refused_families": as_records(state.refused_families),
        "pending": state.pending,
        "held_back": dict(state.held_back),
        **condition_of(state, spiders),
        "domains": [domain._asdict() for domain in state.domains],
        "residual": state.residual,
    }


def charged_as_texts(charged: Mapping[str, int]) -> dict[str, str]:
    """Return sums of money by currency, in millionths: JSON's numbers may be too small for them."""
    return {currency: str(millionths) for currency, millionths in charged.items()}


def condition_of(state: CrawlState, spiders: condition.Spiders) -> View:
    """Return why a crawl stands, or has brought nothing."""
    return {
        "problem": condition.problem(state, spiders) or None,
        "waits_for": list(condition.waits_for(state, spiders)),
    }


def frontier(state: FrontierState) -> View:
    """Return the counters of the frontier."""
    return _told(asdict(state))


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove empty fields that only concern several partitions."""
    for name in ("missing_partitions", "in_transit"):
        if not fields.get(name, True):
            del fields[name]
    return fields


def throttle_table(table: ThrottleTable) -> View:
    """Return all rules and the blacklist, sorted."""
    told = {
        "default": table.default.named(),
        "domains": {name: rule.named() for name, rule in sorted(table.rules.items())},
        "blacklist": sorted(table.blacklist),
        "groups": {
            name: {**group_limits(group.rule), "members": members_of(group)}
            for name, group in table.groups.by_name.items()
        },
    }
    if limits := table.groups.addresses:
        excepted = [*map(str, limits.excepted)]
        told["addresses"] = {**group_limits(limits.rule), "except": excepted}
    return told


def members_of(group: Group[ThrottleRule]) -> list[str]:
    """Return the names and networks of a group, sorted."""
    return [*sorted(group.members), *map(str, group.networks)]


def group_limits(rule: ThrottleRule) -> View:
    """Return the limits of a group by their names in ZooKeeper."""
    named = rule.named()
    return {name: named[name] for name in GROUP_LIMITS}


def domain(report: DomainReport) -> View:
    """Return a domain with the applied fields of its rule; None while no rules are known.

    ``spacing_by`` names what requires ``spacing_ms`` between two requests.
    """
    told = asdict(report)
    rule = told.pop("rule") or dict.fromkeys(field.attribute for field in RULE_FIELDS)
    del rule["scale"]
    if report.gate and report.gate.rule:
        told["gate"] |= {"rule": group_limits(report.gate.rule)}
    spacing_ms, spacing_by = report.spacing
    told |= {"spacing_ms": math.ceil(spacing_ms), "spacing_by": spacing_by}
    return {**told, "is_moderated": rule.pop("moderated"), **rule}


def url(report: UrlReport) -> View:
    """Return a URL with its state in crawls and the limits of its requests."""
    return {
        "url": report.url,
        "identity": canonical(report.url),
        "crawls": [_page(one, report.url) for one in report.crawls],
        "domain": None if report.domain is None else domain(report.domain),
        "limits": "" if report.domain is None else limits_of(report.domain),
        "asked": report.asked,
        "is_cut": report.is_cut,
    }


def limits_of(report: DomainReport) -> str:
    """Return the limits of a domain and the time of its next request, in words."""
    if report.rule is None:
        return "no rule is known yet, so nothing is fetched"
    if not report.rule.effective_hits:
        return "blocked, so nothing is fetched"
    if report.rule.is_paused:
        return f"{report.rule}, so nothing is fetched"
    backs_off = f"; backs off after {report.strikes} refusals" if report.strikes else ""
    rests = "; outside of its Visit-time (robots.txt)" if report.is_outside_hours else ""
    next_s, (spacing_ms, by) = report.next_ms / 1000, report.spacing
    paced = f"; {spacing_ms / 1000:.3g} s apart by its latency" if by == "gentle" else ""
    return f"{report.rule}; next request in {next_s:.1f} s at the earliest{paced}{backs_off}{rests}"


def _page(report: PageReport, url: str) -> View:
    sightings = [{**asdict(one), "summary": _place_of(one, url)} for one in report.sightings]
    return {**asdict(report), "summary": summary_of(report), "sightings": sightings}


_WHY_DELAYED = (
    "it waits for a time, because an attempt failed, robots.txt of its site cannot be fetched now,"
    " or its spider set one"
)


def summary_of(page: PageReport) -> str:
    """Return the state of a page in a crawl, in a sentence."""
    failed = by_reason(page.failed_by_reason) or "none"
    filtered = by_reason(page.filtered_by_reason) or "none"
    paused = ", and its crawl is paused: nothing of it is fetched" * (page.state == "paused")
    return {
        PagePlace.HELD: "in flight (leased by a worker)",
        PagePlace.QUEUED: f"queued{paused}",
        PagePlace.DELAYED: f"delayed: {_WHY_DELAYED}{paused}",
        PagePlace.SEEN: (
            "seen, no longer queued: done, redirected, failed or skipped (failed pages of this run,"
            f" by reason: {failed})"
        ),
        PagePlace.NEVER: (
            "never admitted: never requested, or filtered (filtered links of this run, by reason:"
            f" {filtered})"
        ),
        PagePlace.SPILLED: (
            "not seen, but links of its crawl are spilled to Kafka; it may be one of them"
        ),
        PagePlace.UNSURE: f"seen; not among the first {page.looked_at} entries of its domain",
    }[page.where]


def _place_of(one: Sighting, url: str) -> str:
    attempt = f"priority {one.priority}, attempt {one.attempt}, for {one.spiderid}"
    if one.url != url:
        attempt += f", asked for in another spelling: {one.url}"
    if one.where is PagePlace.HELD:
        held_s = (one.held_ms or 0) / 1000
        return f"held by {one.worker} for {held_s:.1f} s, {one.phase}; {attempt}"
    if one.where is PagePlace.DELAYED:
        return f"due in {(one.due_ms or 0) / 1000:.1f} s; {attempt}"
    return f"position {one.place} in its queue, {one.ahead} pages of its crawl before it; {attempt}"


def process(one: Process) -> View:
    """Return a process; ``values`` are the settings that all processes of its kind share."""
    told = asdict(one)
    # Pipelines have a view of their own; log lines are only for the screen of operators.
    del told["pipelines"], told["activity"]["tail"]
    return {"name": one.name, **told}


def run(one: CrawlRun) -> View:
    """Return a run: its ids, its ending and its counters."""
    fields = asdict(one)
    return {**fields.pop("crawl"), **fields}


def comparison(found: Comparison) -> View:
    """Return two runs and their differences."""
    return {**asdict(found), "before": run(found.before), "after": run(found.after)}


def next_pages(found: NextPages, *, with_times: bool = True) -> View:
    """Return the pages that a crawl requests next.

    Without times nothing shows how many requests of others a domain has before.
    """
    pages = []
    for page in found.pages:
        told = asdict(page)
        if not with_times:
            del told["due_ms"]
        pages.append({**told, "why": why_next(page)})
    return {
        **asdict(found.crawl),
        "run": found.run,
        "state": found.state,
        "pages": pages,
        "is_complete": found.is_complete,
    }


def why_next(page: NextPage) -> str:
    """Return the reason for the priority of a page in words."""
    return f"rule {page.rule}" if page.rule else str(page.reason)
