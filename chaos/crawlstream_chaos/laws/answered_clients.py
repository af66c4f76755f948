"""The law of clients that wait for pages: each is answered, with a place where its page is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from crawlstream_chaos.facts.facts import REPLIES, RESULTS, Facts, FedCrawl, may_miss

_Reply = Mapping[str, Any]


def waiting_clients_are_answered(facts: Facts) -> Iterator[str]:
    """Each has a reply: with the place of its page, unless the page may be missing.

    A reply may come twice, and a crawl that begins again may answer differently then.
    """
    for fed in facts.fed:
        told: defaultdict[str, list[_Reply]] = defaultdict(list)
        for record in facts.on(REPLIES, fed.crawlid):
            if record.value.get("action") == "page":
                told[record.value["uuid"]].append(record.value)
        for uuid in sorted(told.keys() - fed.waiting.keys()):
            yield f"{fed.crawlid}: a reply to {uuid}, which did not wait"
        for uuid, url in fed.waiting.items():
            yield from _of_client(facts, fed, url, told[uuid])


def _of_client(facts: Facts, fed: FedCrawl, url: str, told: list[_Reply]) -> Iterator[str]:
    if not told:
        yield f"{fed.crawlid}: no reply about {url}"
        return
    placed = [reply for reply in told if "partition" in reply]
    if url in fed.delivered and not placed and not may_miss(facts, fed):
        reasons = sorted({reply["reason"] for reply in told})
        yield f"{fed.crawlid}: {url} was answered {', '.join(reasons)}"
    for reply in placed:
        if not _is_there(facts, fed, reply):
            where = f"{reply['partition']}-{reply['offset']}"
            yield f"{fed.crawlid}: {reply['url']} is not at {where}, which its reply names"


def _is_there(facts: Facts, fed: FedCrawl, reply: _Reply) -> bool:
    """Return whether the named record is the page; an offset may be unknown."""
    return any(
        (record.value["id"], record.value["url"]) == (reply["id"], reply["url"])
        and record.partition == reply["partition"]
        and reply["offset"] in {None, record.offset}
        for record in facts.on(RESULTS, fed.crawlid)
    )


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "clients that wait are answered": waiting_clients_are_answered,
}
