"""Laws for a schedule that feeds a crawl repeatedly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from crawlstream_chaos.facts.facts import EVENTS, FIRED, GOES_BACK, RESULTS, Facts, times_fed


def firings_bring_all(facts: Facts) -> Iterator[str]:
    """Each requested firing is reported, and brings each of its pages under an id of its own.

    A Redis that goes back may forget the request; without a report it is sent again.
    """
    may_forget = any(strike.fault in GOES_BACK for strike in facts.strikes)
    for fed in facts.fed:
        if fed.firings is None:
            continue
        name, untold = fed.firings.schedule, fed.firings.untold
        if untold and not may_forget:
            yield f"{name}: nothing was told of {untold} firings"
        fired = {
            record.key for record in facts.on(EVENTS, fed.crawlid) if record.value["event"] == FIRED
        }
        if len(fired) not in times_fed(facts, fed):
            yield f"{name}: fired {len(fired)} times instead of {fed.times}"
        came: defaultdict[str, set[str]] = defaultdict(set)
        for record in facts.on(RESULTS, fed.crawlid):
            came[record.value["url"]].add(record.value["id"])
        for url in fed.delivered:
            if len(came[url]) < fed.times:
                yield f"{name}: {len(came[url])} of {fed.times} firings brought {url}"


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "each firing brings its pages": firings_bring_all,
}
