"""Compares the account that a run's ending gives with what the topics have of that run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from crawlstream_chaos.facts.facts import (
    ENDS,
    EVENTS,
    GOES_BACK,
    RESULTS,
    WIPES,
    Facts,
    FedCrawl,
    TopicRecord,
    endings_of,
    has_gone_back,
    may_forget,
    may_miss,
    named_as_skipped,
    times_fed,
)


def last_accounts(facts: Facts, fed: FedCrawl) -> Iterator[str]:
    """The counters of each ending are those of the records of its run."""
    accounts: dict[int, TopicRecord] = {}
    for ending in endings_of(facts, fed):
        accounts.setdefault(ending.value["run"], ending)
    for ending in accounts.values():
        yield from _last_account(facts, fed, ending)
    redirected = sum(ending.value["counters"]["redirected"] for ending in accounts.values())
    wanted = [fed.redirected * times for times in times_fed(facts, fed)]
    is_explained = redirected in wanted or wanted[0] < redirected <= _followed_again(facts, fed)
    if accounts and not may_miss(facts, fed) and not is_explained:
        yield f"{fed.crawlid}: {redirected} counted as redirected, {wanted[0]} to be seen"


def _last_account(facts: Facts, fed: FedCrawl, ending: TopicRecord) -> Iterator[str]:
    counters = ending.value["counters"]
    ended = sum(counters.get(end, 0) for end in ENDS)  # The version before counts none as skipped.
    if counters["admitted"] != ended:
        yield f"{fed.crawlid}: {counters['admitted']} admitted, {ended} ended"
    failures = [r for r in facts.on(EVENTS, fed.crawlid) if r.value["event"] == "page_failed"]
    shelf_lost = facts.shelf_lost.get(fed.crawlid, 0)
    for name, records, lost in (
        ("done", facts.on(RESULTS, fed.crawlid), 0),
        ("failed", failures, shelf_lost),
    ):
        run = ending.value["run"]
        ids = {r.value["id"] for r in records if fed.runs == 1 or r.value["run"] == run}
        count = len(ids) + lost
        is_forgotten = counters[name] < count and may_forget(facts, fed)
        fewest = count - _left_over(facts, records, ending)
        if has_gone_back(facts):
            # It has forgotten that a page was leased, which was skipped when it was leased again.
            fewest -= len(ids & named_as_skipped(facts, fed, run).keys())
        if not (fewest <= counters[name] <= count or is_forgotten):
            yield f"{fed.crawlid}: {counters[name]} counted as {name}, {count} to be seen"


def _left_over(facts: Facts, records: Sequence[TopicRecord], ending: TopicRecord) -> int:
    """Return how many pages of a run need not be counted: those of forgotten earlier runs.

    A Redis that goes back to before a run ended has its last pages wait once more. They come again
    in the next run, under other ids. Their seeds are over: if that Redis then loses its data, and
    with it their count, nothing brings them a third time, as it brings all pages of the open run.
    """
    run, earlier = ending.value["run"], set[str]()
    came: defaultdict[str, defaultdict[str, list[float]]]
    came = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.value["run"] == run:
            came[record.value["url"]][record.value["id"]].append(record.at)
        elif record.value["run"] < run:
            earlier.add(record.value["url"])
    amount = 0
    for url in earlier & came.keys():
        forgotten = sum(
            _is_forgotten(facts, min(times), max(times), ending.at) for times in came[url].values()
        )
        amount += min(forgotten, len(came[url]) - 1)  # The first one belongs to the run itself.
    return amount


def _is_forgotten(facts: Facts, first: float, last: float, end: float) -> bool:
    """Return whether a Redis went back before a page came, and lost all after it, before an end."""
    backs = [strike.at for strike in facts.strikes if strike.fault in GOES_BACK]
    wipes = [s for s in facts.strikes if s.fault in WIPES and s.at <= end]
    return any(at <= first for at in backs) and any(
        last <= wipe.at + wipe.seconds * 1000 for wipe in wipes
    )


def _followed_again(facts: Facts, fed: FedCrawl) -> int:
    """The most redirects that may be counted: each has led to a page under an id of its own.

    Seeds that wait once more, because a Redis has gone back, are redirected again by the next run.
    """
    if fed.runs == 1 or not has_gone_back(facts):
        return 0
    hops: Mapping[str, int] = {
        r.value["id"]: len(r.value.get("redirect_urls", ())) for r in facts.on(RESULTS, fed.crawlid)
    }
    return sum(hops.values())
