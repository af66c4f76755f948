"""Traces of pages, from a client's request to the settled page, through all processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_chaos.witness import Witness
from support.monitors import MonitorCluster
from support.rest import running_rest
from support.tracing.collector import Collector, SeenSpan, collecting
from support.waiting import WaitUntil

THEIRS, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
UNSAMPLED = "5" * 32
STEPS = ["start", "fetch", "parse", "publish", "settle"]
PHRASE = "squeamish-ossifrage"


async def open_throttle(cluster: MonitorCluster) -> None:
    """Let the crawler fetch at once."""
    settings = cluster.settings()
    default = settings.default_rule
    editor = ThrottleEditor(settings.zookeeper_hosts, settings.throttle_path, default=default)
    await editor.set_rule("default", hits=1_000, window=1, moderated=False, concurrency=100)


def results(cluster: MonitorCluster) -> list[tuple[Mapping[str, Any], Mapping[str, bytes]]]:
    """All results so far, with the headers of their records."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.kafka_hosts, enable_auto_commit=False)
    topic = cluster.topics.crawled
    places = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    found: list[tuple[Mapping[str, Any], Mapping[str, bytes]]] = []
    while any(consumer.position(one) < ends[one] for one in places):
        for records in consumer.poll(timeout_ms=200).values():
            found += [(json.loads(r.value), dict(r.headers)) for r in records]
    consumer.close()
    return found


def is_whole(collector: Collector, trace_id: str, pages: int = 1) -> bool:
    """Return whether a trace has its seed, and the settled pages."""
    seeds = collector.of(trace_id, "intake")
    return bool(seeds) and len(collector.of(trace_id, "page")) >= pages


def check_page(collector: Collector, span: SeenSpan) -> None:
    """The steps of a page are within its span, one after the other."""
    steps = [s for s in collector.of(span.trace_id) if s.parent_id == span.span_id]
    assert [s.name for s in sorted(steps, key=lambda s: (s.begin, s.end))] == STEPS
    for before, after in pairwise(steps):
        assert before.begin <= before.end <= after.end <= span.end
        assert span.begin <= before.begin
    assert {s.service for s in (span, *steps)} == {"crawler"}


async def test_a_seed_continues_its_clients_trace_also_after_a_crash(
    cluster: MonitorCluster, witness: Witness, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A sampled ``traceparent`` of a request, or of a record, leads to one trace a seed.

    With a share of 0 no other page has a span or a header. The crawler dies when the first result
    is published: its successor's spans are in the trace. Nothing secret is in any span.
    """
    await open_throttle(cluster)
    with collecting() as collector, serving({}) as site, ExitStack() as stack:
        on = {"CRAWLSTREAM_TRACES": collector.url, "CRAWLSTREAM_TRACES_SHARE": "0"}
        site.pages |= {"/": page("/found"), "/found": page(), "/plain": page(), "/off": page()}
        stack.enter_context(cluster.kafka_monitor(**on))
        stack.enter_context(cluster.redis_monitor())
        service = stack.enter_context(running_rest(cluster, tmp_path, **on))
        seed = {
            "url": site.url(f"/?key={PHRASE}"),
            "appid": "traces",
            "crawlid": "theirs",
            "maxdepth": 1,
            "cookie": f"session={PHRASE}",
            "headers": {"Authorization": PHRASE},
        }
        site.pages[f"/?key={PHRASE}"] = page("/found")
        await service.post("/v2/crawls", seed, traceparent=f"00-{THEIRS}-{SPAN}-01")
        _feed_others(cluster, site)
        with cluster.crawler("link", FAILPOINT="after_publish:kill", **on) as doomed:
            assert doomed.wait() == -signal.SIGKILL
        stack.enter_context(cluster.crawler("link", **on))
        for crawl in ("theirs", "plain"):
            await witness.ended(crawl)
        await wait_until(lambda: is_whole(collector, THEIRS) and is_whole(collector, "6" * 32))

        assert {s.trace_id for s in collector.spans} == {THEIRS, "6" * 32}
        (intake,) = collector.of(THEIRS, "intake")
        assert (intake.service, intake.parent_id) == ("kafka-monitor", SPAN)
        pages = collector.of(THEIRS, "page")
        assert {s.parent_id for s in pages} == {intake.span_id}
        done = pages[-1]
        check_page(collector, done)
        assert done.attributes["crawlstream.outcome"] == "done"
        assert done.attributes["url.full"] == site.url("/")
        assert PHRASE.encode() not in collector.bytes

        found = results(cluster)
        headers = [
            head for value, head in found if value["id"] == done.attributes["crawlstream.id"]
        ]
        assert headers[-1] == {"traceparent": f"00-{THEIRS}-{done.span_id}-01".encode()}
        others = [head for value, head in found if value["url"] in _untraced(site)]
        assert len(others) >= 3
        assert not any(others)


def _untraced(site: CrawlerSite) -> set[str]:
    return {site.url(path) for path in ("/found", "/plain", "/off")}


def _feed_others(cluster: MonitorCluster, site: CrawlerSite) -> None:
    """Feed seeds as records: without a trace, with one that is not sampled, and a sampled one."""
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    traces = {"/plain": "", "/off": f"00-{UNSAMPLED}-{SPAN}-00", "/": f"00-{'6' * 32}-{SPAN}-01"}
    for path, trace in traces.items():
        seed = {"url": site.url(path), "appid": "traces", "crawlid": "plain"}
        headers = [("other", b"x"), ("traceparent", trace.encode())] if trace else []
        producer.send(cluster.topics.incoming, json.dumps(seed).encode(), headers=headers)
    producer.flush()
    producer.close()


async def test_traces_of_sampled_pages_are_named_by_their_ids(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """With a share of 1 each page has the trace of its ``id``, and its intake if it is a seed.

    A page that fails says why. With a collector that is down, or without one, the pages are the
    same, and a client's ``traceparent`` has no effect without one.
    """
    await open_throttle(cluster)
    with serving({}) as site:
        site.pages |= {"/": page("/found"), "/found": page()}
        site.pages["/loop"] = Answer(status=302, headers={"Location": "/loop"})
        with collecting() as collector:
            on = {"CRAWLSTREAM_TRACES": collector.url, "CRAWLSTREAM_TRACES_SHARE": "1"}
            ids = await _crawl(cluster, witness, site, "own", **on)
            await wait_until(lambda: all(collector.of(each, "page") for each in ids.values()))
            seed, found = ids["/"], ids["/found"]
            (intake,) = collector.of(seed, "intake")
            (first,), (second,) = collector.of(seed, "page"), collector.of(found, "page")
            assert (intake.parent_id, first.parent_id) == ("", intake.span_id)
            assert second.parent_id == ""
            for each in (first, second):
                check_page(collector, each)
            (failed,) = [s for s in collector.spans if s.name == "page" and s.error]
            assert failed.attributes["crawlstream.outcome"] == "failed"
            assert (failed.error, failed.attributes["url.full"]) == (
                failed.attributes["crawlstream.reason"],
                site.url("/loop"),
            )
        await _crawl(cluster, witness, site, "down", **on)
        await _crawl(cluster, witness, site, "off")
    shape: dict[str, set[tuple[str, ...]]] = {}
    for value, headers in results(cluster):
        if value["crawlid"] in {"own", "down", "off"}:
            shape.setdefault(value["crawlid"], set()).add((value["url"], *sorted(value)))
            assert bool(headers) == (value["crawlid"] != "off")
    assert shape["own"] == shape["down"] == shape["off"]


async def _crawl(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite, crawlid: str, **env: str
) -> dict[str, str]:
    """Crawl two pages and one that fails; return the ids of the pages by their paths."""
    common = {"appid": "traces", "crawlid": crawlid, "maxdepth": 1}
    with (
        cluster.kafka_monitor(**env),
        cluster.redis_monitor(),
        cluster.crawler("link", **env),
    ):
        for path in ("/", "/loop"):
            witness.feed({"url": site.url(path), **common})
        await witness.ended(crawlid)
    found = [value for value, _ in results(cluster) if value["crawlid"] == crawlid]
    return {value["url"].removeprefix(site.url("")): value["id"] for value in found}
