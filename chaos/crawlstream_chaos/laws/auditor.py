"""The auditor: holds what was seen against the laws, and names each law that was broken.

Every law is a function of facts alone, so that a test can plant any violation without a cluster.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise

from crawlstream_chaos.facts.facts import (
    EMPTIES_SHELF,
    EVENTS,
    FIRED,
    REPLIES,
    RESULTS,
    Facts,
    FedCrawl,
    HostRule,
    Strike,
    TopicRecord,
    Violation,
    endings_of,
    endings_told,
    has_gone_back,
    identity,
    may_forget,
    may_miss,
    repeats,
    times_fed,
)
from crawlstream_chaos.laws.accounts import last_accounts
from crawlstream_chaos.laws.answered_clients import LAWS as OF_REPLIES
from crawlstream_chaos.laws.bodies import LAWS as OF_BODIES
from crawlstream_chaos.laws.firings import LAWS as OF_FIRINGS
from crawlstream_chaos.laws.payments import LAWS as OF_PAYMENTS
from crawlstream_chaos.laws.payments import shown_status
from crawlstream_chaos.laws.pipeline_stores import LAWS as OF_PIPELINES
from crawlstream_chaos.laws.scenes import LAWS as OF_PROXIES
from crawlstream_chaos.laws.scrapes import LAWS as OF_SCRAPES
from crawlstream_chaos.laws.signatures import LAWS as OF_SIGNATURES
from crawlstream_chaos.laws.skips import LAWS as OF_SKIPS
from crawlstream_chaos.laws.traces import LAWS as OF_TRACES
from crawlstream_chaos.witness import ENDINGS
from crawlstream_cli.demo.access_log import STAMP_TOLERANCE_S

SHOWN = 5
"""Number of violations of a kind that are shown individually."""
_LATE_MS = 10_000
"""Topics are read concurrently; a record counts as later only after this time."""

_GIVEN_MS = 100
"""Time that the frontier clock may gain where Redis' clock is set, and nowhere else: ADR 13."""
STEPS_CLOCK, LEAVES_COPY = frozenset({"step-clock", "jump-clock"}), "power-cut"

Law = Callable[[Facts], Iterator[str]]


def audit(facts: Facts) -> list[Violation]:
    """Every violation of every law; none if all is well."""
    return [Violation(name, what) for name, law in LAWS.items() for what in _cut(list(law(facts)))]


def _cut(found: Sequence[str]) -> Sequence[str]:
    more = len(found) - SHOWN
    return [*found[:SHOWN], *([f"… and {more} more"] if more > 0 else [])]


def nothing_lost(facts: Facts) -> Iterator[str]:
    """Every page comes with its status, or fails by its name; nothing else does."""
    for fed in facts.fed:
        came = {r.value["url"]: shown_status(facts, r) for r in facts.on(RESULTS, fed.crawlid)}
        failed = {
            r.value["url"]: r.value["reason"]
            for r in facts.on(EVENTS, fed.crawlid)
            if r.value["event"] == "page_failed"
        }
        if not may_miss(facts, fed):
            yield from _missing(fed, fed.delivered, came, "delivered")
            yield from _missing(fed, fed.failed, failed, "failed")
        wanted = {**fed.delivered, **dict.fromkeys(fed.may_be_skipped, 200)}
        yield from _differences(fed, wanted, came, "delivered")
        yield from _differences(fed, fed.failed, failed, "failed")


def _missing(
    fed: FedCrawl, wanted: Mapping[str, object], got: Mapping[str, object], verb: str
) -> Iterator[str]:
    for url in sorted(wanted.keys() - got.keys()):
        yield f"{fed.crawlid}: never {verb}: {url}"


def _differences(
    fed: FedCrawl, wanted: Mapping[str, object], got: Mapping[str, object], verb: str
) -> Iterator[str]:
    """Pages that are too many, or not as they must be."""
    for url in sorted(got):
        if url not in wanted:
            yield f"{fed.crawlid}: {verb} ({got[url]}) but should not be: {url}"
        elif got[url] != wanted[url]:
            yield f"{fed.crawlid}: {verb} with {got[url]} instead of {wanted[url]}: {url}"


def repeats_are_bounded(facts: Facts) -> Iterator[str]:
    """No page comes again but for a fault before it, and no more than were in flight there.

    What says that it is recovered is not counted after Redis was emptied, as crawls begin again. A
    Redis that has lost the effect of a request in its last moments is an old copy: crawls go on
    from there, and all that comes from then on says so.
    """
    strikes = sorted(facts.strikes, key=lambda strike: strike.at)
    at = [strike.at for strike in strikes]
    allowed = [0, *accumulate(strike.in_flight for strike in strikes)]
    anew = min((strike.at for strike in strikes if strike.began_again), default=float("inf"))
    copied = min((strike.at for strike in strikes if strike.fault == LEAVES_COPY), default=anew)
    counted = 0
    for record in repeats(facts):
        if record.value.get("recovered") and record.at >= anew:
            continue
        if record.value.get("recovered") and record.at < copied:
            yield f"recovered though nothing was lost: {record.value['url']}"
            continue
        counted += 1
        so_far = allowed[bisect_right(at, record.at)]
        if counted > so_far:
            yield (
                f"repeat {counted}, where the faults before it explain {so_far}:"
                f" {record.value['url']}"
            )


def repeats_are_recognisable(facts: Facts) -> Iterator[str]:
    """A page has the same id in every delivery, no two pages share one, and the key is the id.

    The id names the run, so seeds that are fed once are pages of one run. Each firing is a feeding.
    If a Redis that goes back has forgotten pages of a run that is over, they come again in the next
    run.
    """
    most = {fed.crawlid: times_fed(facts, fed)[-1] for fed in facts.fed}
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    runs: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    pages: defaultdict[str, set[tuple[str, str, int]]] = defaultdict(set)
    is_forgotten = has_gone_back(facts)
    for record in facts.records:
        if record.topic != RESULTS:
            continue
        value = record.value
        page = value["crawlid"], value["url"], value["run"]
        ids[page[:2]].add(value["id"])
        runs[page[:2]].add(value["run"] if is_forgotten else 1)
        pages[value["id"]].add(page)
        if record.key != value["id"]:
            yield f"key {record.key} of the record {value['id']}: {value['url']}"
    for (crawlid, url), names in ids.items():
        if len(names) > max(most.get(crawlid, 1), len(runs[crawlid, url])):
            yield f"{len(names)} ids of one page: {url} of {crawlid}"
    for name, several in pages.items():
        if len(several) > 1:
            yield f"one id of {len(several)} pages: {name}"


def conservation(facts: Facts) -> Iterator[str]:
    """Every admitted page is somewhere at every instant; the last account agrees with the topics.

    admitted = done + failed + redirected + skipped + stopped + expired + waiting + held.
    """
    for sample in facts.samples:
        for ledger in sample.ledgers:
            if ledger.residual:
                yield f"{ledger.crawl.crawlid}: {ledger.residual} of {ledger.admitted} nowhere"
    for name, count in facts.leaks.items():
        if count:
            yield f"the frontier's balance: {name} is off by {count}"
    for fed in facts.fed:
        yield from last_accounts(facts, fed)


def one_ending(facts: Facts) -> Iterator[str]:
    """A crawl that was started ends once, in one way, and is over then; so does each run of it."""
    for fed in facts.fed:
        events = {identity(r.value): r for r in facts.on(EVENTS, fed.crawlid)}
        endings = [r for r in events.values() if r.value["event"] in ENDINGS]
        starts = [r for r in events.values() if r.value["event"] == "crawl_started"]
        runs = sorted(r.value["run"] for r in starts or _forgotten(facts, fed, endings))
        least = fed.times - _joined(facts, fed, endings)
        if not least <= len(runs) <= fed.times and not _may_begin_again(facts, fed, starts):
            yield f"{fed.crawlid}: started as runs {runs}"
        ways = sorted(((r.value["event"], r.value["run"]) for r in endings), key=lambda way: way[1])
        wanted = "crawl_stopped" if fed.is_stopped else "crawl_finished"
        if ways != [(wanted, run) for run in runs]:
            named = [f"{event} of run {run}" for event, run in ways]
            yield f"{fed.crawlid}: ended by {named or 'nothing'}"
        yield from _same_counters(facts, fed)
        ends = {r.value["run"]: r.at for r in endings}
        for record in facts.on(RESULTS, fed.crawlid):
            end = ends.get(record.value["run"], max(ends.values(), default=record.at))
            if record.at > end + _LATE_MS:
                yield f"{fed.crawlid}: {record.value['url']} came after its end"


def _same_counters(facts: Facts, fed: FedCrawl) -> Iterator[str]:
    of_runs: defaultdict[int, set[str]] = defaultdict(set)
    for ending in endings_of(facts, fed):
        of_runs[ending.value["run"]].add(str(ending.value["counters"]))
    if any(len(counters) > 1 for counters in of_runs.values()):
        yield f"{fed.crawlid}: its ending was told with different counters"


def _joined(facts: Facts, fed: FedCrawl, endings: Sequence[TopicRecord]) -> int:
    """Return how many firings came before the run of the one before had ended: they share it."""
    fired = {r.key: r for r in facts.on(EVENTS, fed.crawlid) if r.value["event"] == FIRED}
    told = sorted([*fired.values(), *endings], key=lambda record: record.at)
    firings = [record.value["event"] == FIRED for record in told]
    return sum(before and then for before, then in pairwise(firings))


def _may_begin_again(facts: Facts, fed: FedCrawl, starts: Sequence[TopicRecord]) -> bool:
    """Return whether a run may have ended before seeds were read that a fault delayed: ADR 141."""
    times = sorted(r.at for r in starts)
    beyond = times[fed.times : fed.times + 1]
    is_struck = any(strike.at <= at for strike in facts.strikes for at in beyond)
    return is_struck and len(starts) <= fed.runs


def _forgotten(
    facts: Facts, fed: FedCrawl, endings: Sequence[TopicRecord]
) -> Sequence[TopicRecord]:
    """The ending of a run whose start has no record."""
    return [r for r in endings[:1] if may_forget(facts, fed)]


def _is_between_writing_and_noting(target: str) -> bool:
    """A redis-monitor, the Redis that it notes an ending in, or the Kafka that it writes it to."""
    return target.startswith("redis") or target == "kafka"


def endings_are_told_once(facts: Facts) -> Iterator[str]:
    """An ending is written again only where its writer died, or a service failed, before."""
    struck = [s.at for s in facts.strikes if _is_between_writing_and_noting(s.target)]
    for record in endings_told(facts).repeats:
        if not any(at <= record.at for at in struck):
            name = f"{record.value['event']} of run {record.value['run']}"
            yield f"{record.value['crawlid']}: {name} was told again, and nothing explains it"


def politeness(facts: Facts) -> Iterator[str]:
    """No window of any host has more requests than a rule that was in force in it allows.

    Requests of scripts are limited per page: :func:`further_requests_bounded`. If pages go through
    proxies, the proxies record when requests left: after that they may overtake each other.
    """
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    for visit in facts.by_proxies.departures if facts.pool else facts.visits:
        if visit.document is None:
            arrivals[visit.host].append(visit.mono)
    rules: defaultdict[str, list[HostRule]] = defaultdict(list)
    for rule in facts.rules:
        rules[rule.host].append(rule)
    for host, times in sorted(arrivals.items()):
        steps = [strike for strike in facts.strikes if strike.fault in STEPS_CLOCK]
        yield from _crowded(host, sorted(times), rules[host], steps)


def _given_ms(first: float, last: float, steps: Sequence[Strike]) -> float:
    """By how much a window may be short."""
    is_set = any(step.at <= last and first <= step.at + step.seconds * 1000 for step in steps)
    return _GIVEN_MS if is_set else 0


def _crowded(
    host: str, times: Sequence[float], rules: Sequence[HostRule], steps: Sequence[Strike]
) -> Iterator[str]:
    """Windows of one host that break every rule that they touch."""
    if not rules:
        yield f"{host} was asked {len(times)} times, and no rule allows it"
    for rule in rules:
        window = (rule.window_s - STAMP_TOLERANCE_S) * 1000
        beyond = zip(times, islice(times, rule.hits, None), strict=False)
        for first, last in beyond:
            is_in_force = rule.since <= first and last < rule.until
            if is_in_force and last - first < window - _given_ms(first, last, steps):
                yield (
                    f"{host}: {rule.hits + 1} requests within {(last - first) / 1000:.4f} s,"
                    f" where {rule.hits} may be in {rule.window_s:g} s"
                )


def further_requests_bounded(facts: Facts) -> Iterator[str]:
    """Scripts of a page have never asked for more than its visits until then may bring."""
    asked, further = Counter[str](), Counter[str]()
    for visit in sorted(facts.visits, key=lambda visit: visit.mono):
        if visit.document is None:
            asked[visit.host + visit.path] += 1
            continue
        page = visit.host + visit.document
        further[page] += 1
        if further[page] == facts.render * asked[page] + 1:
            yield (
                f"{page}: further request {further[page]}, where {asked[page]} visits"
                f" may bring {facts.render} each"
            )


def acknowledged_first(facts: Facts) -> Iterator[str]:
    """No page is complete before Kafka has its result."""
    waiting: defaultdict[tuple[str, int], deque[TopicRecord]] = defaultdict(deque)
    for record in sorted(facts.records, key=lambda record: record.offset):
        if record.topic == RESULTS:
            waiting[record.place].append(record)
    had: defaultdict[str, set[str]] = defaultdict(set)
    for sample in sorted(facts.samples, key=lambda sample: sample.at):
        for place, records in waiting.items():
            while records and records[0].offset < sample.logged.get(place, 0):
                value = records.popleft().value
                had[value["crawlid"]].add(value["id"])
        for ledger in sample.ledgers:
            crawlid = ledger.crawl.crawlid
            if ledger.done > len(had[crawlid]):
                yield f"{crawlid}: {ledger.done} complete when Kafka had {len(had[crawlid])}"


def everything_answered(facts: Facts) -> Iterator[str]:
    """Every question is answered under its own id, and as often as it is, the same."""
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for record in facts.records:
        if record.topic == REPLIES and "uuid" in record.value:
            told = {k: v for k, v in record.value.items() if k != "server_time"}
            answers[record.value["uuid"]].add(str(sorted(told.items(), key=str)))
    for uuid in sorted(facts.asked):
        if not answers[uuid]:
            yield f"never answered: {uuid}"
        elif len(answers[uuid]) > 1:
            yield f"{len(answers[uuid])} different answers: {uuid}"


def robots_obeyed(facts: Facts) -> Iterator[str]:
    """Pages that must fail for robots.txt are not requested."""
    forbidden = {
        url.partition("://")[2].partition(":")[0] + url[url.index("/", 8) :]
        for fed in facts.fed
        for url, reason in fed.failed.items()
        if reason == "robots"
    }
    for place, times in Counter(visit.host + visit.path for visit in facts.visits).items():
        if place in forbidden:
            yield f"{place} was asked for {times} times"


def kept_on_shelf(facts: Facts) -> Iterator[str]:
    """Nothing is lost on the shelf unless that was emptied before."""
    emptied = [strike for strike in facts.strikes if strike.fault == EMPTIES_SHELF]
    for crawlid, pages in facts.shelf_lost.items():
        if pages and not emptied:
            yield f"{crawlid}: {pages} pages were told as lost on a shelf that has all"


def own_topic_has_all(facts: Facts) -> Iterator[str]:
    """The application's own topic holds every result that the common one holds."""
    if facts.own_topic is None:
        return
    for record in facts.records:
        if record.topic == RESULTS and record.key not in facts.own_topic:
            yield f"{record.value['crawlid']}: not on its own topic: {record.value['url']}"


LAWS: Mapping[str, Law] = {
    "nothing is lost": nothing_lost,
    "the shelf keeps all": kept_on_shelf,
    "repeats are bounded": repeats_are_bounded,
    "repeats are recognisable": repeats_are_recognisable,
    "the ledger adds up": conservation,
    "one ending a run": one_ending,
    "an ending is told once": endings_are_told_once,
    "no window is overrun": politeness,
    "a page brings what it may": further_requests_bounded,
    "complete only after Kafka": acknowledged_first,
    "every question is answered": everything_answered,
    "robots.txt is obeyed": robots_obeyed,
    "an application's topic has all": own_topic_has_all,
    **OF_FIRINGS,
    **OF_REPLIES,
    **OF_SKIPS,
    **OF_PROXIES,
    **OF_SIGNATURES,
    **OF_SCRAPES,
    **OF_BODIES,
    **OF_PAYMENTS,
    **OF_PIPELINES,
    **OF_TRACES,
}
