"""Facts of a crawl that breaks no law, and changes of them that break one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream_chaos.facts.facts import (
    APP,
    ENDS,
    ByProxies,
    Facts,
    FedCrawl,
    Firings,
    HostRule,
    LedgerSample,
    Strike,
    TopicRecord,
)
from crawlstream_cli.demo.access_log import LoggedRequest

CRAWL = "crawl"
PAGES = {f"http://127.0.0.1:1/{n}": 200 for n in range(6)}
PRIVATE = "http://127.0.0.1:1/private/7"
FED = FedCrawl(crawlid=CRAWL, delivered=PAGES, failed={PRIVATE: "robots"}, redirected=1)
STRIKE = Strike(fault="kill", target="crawler-link-1", at=2_000, in_flight=1)
ASKED = "a-question"
COUNTERS = dict.fromkeys(ENDS, 0) | {"admitted": 8, "done": 6, "failed": 1, "redirected": 1}
BANS = {"http://127.0.0.1:1/0": "noindex", "http://127.0.0.1:1/2": "reserved"}


def record(
    topic: str, offset: int, at: float, /, key: str | None = None, **value: Any
) -> TopicRecord:
    """A record of the crawl."""
    value = {"crawlid": CRAWL, "appid": APP, "run": 1, **value}
    return TopicRecord(topic=topic, key=key, value=value, partition=0, offset=offset, at=at)


def result(number: int, at: float, offset: int | None = None, **value: Any) -> TopicRecord:
    """The result of a page; the first one says noindex, the third one is reserved."""
    name, url = f"id-{number}", f"http://127.0.0.1:1/{number}"
    ban = BANS.get(url)
    value = {**({"has_body": False, "dropped": ban} if ban else {}), **value}
    when = "2026-11-28T10:00:00Z"
    fields = {"id": name, "url": url, "status_code": 200, "timestamp": when, **value}
    fields = {"key": fields["id"], **fields}
    return record("crawled_firehose", number if offset is None else offset, at, **fields)


def event(name: str, at: float, **value: Any) -> TopicRecord:
    """An event of the crawl."""
    return record("events", int(at), at, event=name, **value)


def ending(at: float = 9_000, name: str = "crawl_finished", **counters: int) -> TopicRecord:
    """How the crawl ended."""
    return event(name, at, counters={**COUNTERS, **counters})


def answer(uuid: str = ASKED, **value: Any) -> TopicRecord:
    """The answer to a question."""
    return record("outbound_firehose", 0, 5_000, uuid=uuid, server_time=1.5, **value)


def visit(at: float, path: str = "/1") -> LoggedRequest:
    """A request that the site saw."""
    return LoggedRequest(at, at, "127.0.0.1", "GET", path, 200, "")


def ledger(**counts: int) -> CrawlState:
    """A ledger that adds up: six are done, one failed, one is held."""
    numbers: dict[str, Any] = {
        "admitted": 8, "queued": 0, "delayed": 0, "held": 1, "done": 6, "failed": 1,
        "redirected": 0, "skipped": 0, "stopped": 0, "expired": 0, **counts,
    }  # fmt: skip
    key = CrawlKey("link", APP, CRAWL)
    return CrawlState(
        crawl=key, run=1, state="running", started_at=0, last_activity=0, expires=0, **numbers
    )


def sample(at: float = 7_000, logged: int = 6, **counts: int) -> LedgerSample:
    """Counters of the ledger, and the number of results in Kafka at that time."""
    return LedgerSample(at=at, ledgers=[ledger(**counts)], logged={("crawled_firehose", 0): logged})


RESULTS = [result(n, 1_000 * (n + 1)) for n in range(6)]
EVENTS = [
    event("crawl_started", 100),
    event("page_failed", 200, id="id-7", url=PRIVATE, reason="robots"),
    ending(),
]
GOOD = Facts(
    fed=[FED],
    records=[*RESULTS, *EVENTS, answer()],
    visits=[visit(1_000 * n) for n in range(6)],
    rules=[HostRule(host="127.0.0.1", hits=1, window_s=1)],
    samples=[sample()],
    strikes=[STRIKE],
    asked=frozenset({ASKED}),
    own_topic=frozenset(f"id-{n}" for n in range(6)),
    bans=BANS,
)

Plant = Callable[[Facts], Facts]


def seen_by_proxies(facts: Facts, visits: Sequence[LoggedRequest]) -> Facts:
    """Audit a crawl through proxies that have seen these requests."""
    return replace(facts, pool="de", by_proxies=ByProxies(list(visits)))


def more(*records: TopicRecord) -> Plant:
    """Records besides the good ones."""
    return lambda facts: replace(facts, records=[*facts.records, *records])


def without(*records: TopicRecord) -> Plant:
    """The good records but some."""
    return lambda facts: replace(facts, records=[r for r in facts.records if r not in records])


def instead(old: TopicRecord, new: TopicRecord) -> Plant:
    """Replace one of the good records."""
    return lambda facts: replace(facts, records=[new if r == old else r for r in facts.records])


def firing(number: int) -> TopicRecord:
    """Events of a firing, which name no run."""
    told = event("schedule_fired", 50 + number, schedule="news")
    value = {k: v for k, v in told.value.items() if k != "run"}
    return replace(told, key=f"news {number}", value={**value, "at": number})


def fired(times: int, facts: Facts, *, untold: int = 0) -> Facts:
    """The crawl belongs to a schedule with this number of firings."""
    firings = Firings(schedule="news", told=times, untold=untold)
    fed = replace(FED, firings=firings, runs=times * 3)
    told = [firing(number) for number in range(1, times + 1)]
    return replace(facts, fed=[fed], records=[*told, *facts.records])


def sampled(*samples: LedgerSample) -> Plant:
    """Other samples."""
    return lambda facts: replace(facts, samples=samples)


def visited(*times: float) -> Plant:
    """Other arrivals at the site."""
    return lambda facts: replace(facts, visits=[visit(at) for at in times])


AGAIN = result(1, 3_500, offset=10)
"""A repeat after the strike, which had one page in flight."""


def of_run(number: int, facts: Facts) -> list[TopicRecord]:
    """The records of the crawl as those of another run, whose pages have other ids."""
    found = []
    for seen in facts.records:
        value = {**seen.value, "run": number}
        if "id" in value:
            value["id"] = f"{value['id']}-{number}"
        key = value["id"] if seen.topic == "crawled_firehose" else seen.key
        found.append(replace(seen, key=key, value=value, offset=seen.offset + 100 * number))
    return found
