"""Laws for pages that must all come through a proxy, by the records of the proxies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from crawlstream.model.url import host_of
from crawlstream_chaos.facts.facts import Facts

RESULTS = "crawled_firehose"
_TRY_AGAIN = frozenset({408, 429})
"""Statuses, besides 5xx, after which a page is requested again."""


def none_past_proxies(facts: Facts) -> Iterator[str]:
    """Each result names a proxy of the pool, and each request at the site came through one."""
    if not facts.pool:
        return
    passed = Counter((visit.host, visit.path) for visit in facts.by_proxies.departures)
    asked = Counter((visit.host, visit.path) for visit in facts.visits)
    for (host, path), times in (asked - passed).items():
        yield f"{host}{path} was asked for {times} times past all proxies"
    for record in facts.records:
        way = record.value.get("proxy") or {}
        if record.topic == RESULTS and way.get("pool") != facts.pool:
            yield f"{record.value['url']} came past the pool {facts.pool}"


def attempts_have_a_cause(facts: Facts) -> Iterator[str]:
    """No page loses an attempt but by its site's word, or a way that broke between it and a proxy.

    A proxy that takes no connection, or wants a password, costs none.
    """
    if not facts.pool:
        return
    lost, causes = Counter[str](), Counter(facts.by_proxies.broken)
    for record in facts.records:
        if record.topic == RESULTS and record.value.get("attempt", 1) > 1:
            host = host_of(record.value["url"])
            lost[host] += record.value["attempt"] - 1
    for visit in facts.visits:
        if visit.status >= 500 or visit.status in _TRY_AGAIN:
            causes[visit.host] += 1
    for host, attempts in (lost - causes).items():
        yield f"{host}: {attempts} attempts more were lost than it and the ways to it account for"


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "no page comes past its proxies": none_past_proxies,
    "attempts are lost for a cause": attempts_have_a_cause,
}
