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
from crawlstream_chaos.facts.facts import Facts, TopicRecord
from crawlstream_chaos.facts.trace_collector import Collector, SeenSpan, collecting
from crawlstream_chaos.laws.traces import LAWS, SHARE, missing
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_chaos.witness import Witness
from crawlstream_traces.context import is_in_share
from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest
from support.waiting import WaitUntil

THEIRS, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
UNSAMPLED = "5" * 32
TESTS = Path(__file__).parents[2]
OBEYS = {"ROBOTSTXT_OBEY": "true"}
LOOP = Answer(status=302, headers={"Location": "/loop"})
STEPS = ["robots", "start", "fetch", "parse", "publish", "settle"]
UNPRICED = b'<h1>Socks</h1><p class="price">none</p>'
PHRASE = "squeamish-ossifrage"
PIPELINES = """
[pipeline.shop]
edition = {edition}
workers = 1
stage = [{{use = "page"}}, {{use = "python:support.pipelines.shop:product"}}]
sink = {{kind = "files", path = "{place}", format = "jsonl", max_age = "1s"}}
[pipeline.plain]
edition = {edition}
sink = {{kind = "files", path = "{place}", format = "jsonl", max_age = "1s"}}
"""


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
    below = [s for s in collector.of(span.trace_id) if s.parent_id == span.span_id]
    steps = [s for s in below if s.service == "crawler"]
    assert [s.name for s in sorted(steps, key=lambda s: (s.begin, s.end))] == STEPS
    for before, after in pairwise(steps):
        assert before.begin <= before.end <= after.end <= span.end
        assert span.begin <= before.begin
    assert {s.service for s in (span, *steps)} == {"crawler"}


async def test_a_seed_continues_its_clients_trace_also_after_a_crash(
    cluster: MonitorCluster, witness: Witness, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A sampled ``traceparent`` of a request, or of a record, leads to one trace a seed.

    With a share of 0 no other page has a span or a header, except one that fails, if failures are
    sampled. The crawler dies when the first result is published: its successor's spans are in the
    trace. Nothing secret is in any span.
    """
    await open_throttle(cluster)
    with collecting() as collector, serving({}) as site, ExitStack() as stack:
        on = {"CRAWLSTREAM_TRACES": collector.url, "CRAWLSTREAM_TRACES_SHARE": "0"}
        on["CRAWLSTREAM_TRACES_FAILURES"] = "true"
        site.pages |= {"/": page("/found"), "/found": page(), "/plain": page(), "/off": page()}
        site.pages |= {"/loop": LOOP, "/now": page()}
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
        with cluster.crawler("link", FAILPOINT="after_publish:kill", **OBEYS, **on) as doomed:
            assert doomed.wait() == -signal.SIGKILL
        stack.enter_context(cluster.crawler("link", **OBEYS, **on))
        for crawl in ("theirs", "plain"):
            await witness.ended(crawl)
        await _check_scrapes(service, site, collector, wait_until)
        await wait_until(lambda: is_whole(collector, THEIRS) and is_whole(collector, "6" * 32))
        await wait_until(lambda: any(span.error for span in collector.spans))

        (failed,) = [span for span in collector.spans if span.error]
        assert failed.attributes["url.full"] == site.url("/loop")
        assert failed.trace_id == failed.attributes["crawlstream.id"]
        assert {s.service for s in collector.of(failed.trace_id)} == {"crawler"}
        known = {THEIRS, "6" * 32, "7" * 32, "8" * 32, failed.trace_id}
        assert {s.trace_id for s in collector.spans} == known
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


async def _check_scrapes(
    service: RestProcess, site: CrawlerSite, collector: Collector, wait_until: WaitUntil
) -> None:
    """Answers to scrapes and events name the span of the page, if the client traces its request."""
    order = {"url": site.url("/now"), "formats": ["metadata"]}
    plain = await service.post("/v2/scrape", order)
    assert "traceparent" not in {**plain.headers}
    theirs = await service.post("/v2/scrape", order, traceparent=f"00-{'7' * 32}-{SPAN}-01")
    assert (plain.data["state"], theirs.data["state"]) == ("done", "done")
    await wait_until(lambda: is_whole(collector, "7" * 32))
    await wait_until(lambda: bool(collector.of("7" * 32, "wait")))
    (whole,), (intake,) = collector.of("7" * 32, "page"), collector.of("7" * 32, "intake")
    (wait,) = collector.of("7" * 32, "wait")
    assert theirs.headers["traceparent"] == f"00-{'7' * 32}-{whole.span_id}-01"
    assert {wait.parent_id, whole.parent_id} == {intake.span_id}
    assert intake.begin <= wait.begin <= wait.end == whole.begin
    streamed = await service.post(
        "/v2/scrape",
        order,
        traceparent=f"00-{'8' * 32}-{SPAN}-01",
        Accept="text/event-stream",
    )
    await wait_until(lambda: is_whole(collector, "8" * 32))
    (page,) = collector.of("8" * 32, "page")
    assert f'"traceparent":"00-{"8" * 32}-{page.span_id}-01"' in streamed.body.decode()


def _untraced(site: CrawlerSite) -> set[str]:
    return {site.url(path) for path in ("/found", "/plain", "/off")}


def _feed_others(cluster: MonitorCluster, site: CrawlerSite) -> None:
    """Feed seeds as records: without a trace, with one that is not sampled, and a sampled one."""
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    traces = {
        "/plain": "",
        "/loop": "",
        "/off": f"00-{UNSAMPLED}-{SPAN}-00",
        "/": f"00-{'6' * 32}-{SPAN}-01",
    }
    for path, trace in traces.items():
        seed = {"url": site.url(path), "appid": "traces", "crawlid": "plain"}
        headers = [("other", b"x"), ("traceparent", trace.encode())] if trace else []
        producer.send(cluster.topics.incoming, json.dumps(seed).encode(), headers=headers)
    producer.flush()
    producer.close()


async def test_traces_of_sampled_pages_are_named_by_their_ids(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil, tmp_path: Path
) -> None:
    """With a share of 1, each page has the trace of its ``id``, and each seed its intake.

    A page that fails says why, and one that pays for robots.txt is not fetched. The spans of
    pipelines follow. With a collector that is down, or without one, the pages are the same, and a
    client's ``traceparent`` has no effect without one.
    """
    file = tmp_path / "pipelines.toml"
    file.write_text(PIPELINES.format(place=tmp_path / "out", edition=1))
    await open_throttle(cluster)
    with serving({}) as site:
        site.pages |= {"/": page("/found"), "/found": Answer(UNPRICED), "/loop": LOOP}
        with collecting() as collector:
            on = {"CRAWLSTREAM_TRACES": collector.url, "CRAWLSTREAM_TRACES_SHARE": "1"}
            with cluster.pipelines(file, PYTHONPATH=cluster.python_path(TESTS), **on):
                ids = await _crawl(cluster, witness, site, "own", **on)
                await wait_until(
                    lambda: all(len(collector.of(each, "write")) == 2 for each in ids.values())
                )
            seed, found = ids["/"], ids["/found"]
            (intake,) = collector.of(seed, "intake")
            pages = [_without_buyers(collector, each) for each in (seed, found)]
            (first,), (second,) = pages
            _check_pipelines(collector, first, second)
            assert (intake.parent_id, first.parent_id) == ("", intake.span_id)
            assert second.parent_id == ""
            check_page(collector, first)
            check_page(collector, second)
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


def _without_buyers(collector: Collector, trace_id: str) -> list[SeenSpan]:
    """Return the spans of a page's fetches; where it paid for robots.txt, it has no fetch."""
    pages = collector.of(trace_id, "page")
    released = [span for span in pages if span.attributes["crawlstream.outcome"] == "released"]
    for span in released:
        steps = {s.name for s in collector.of(trace_id) if s.parent_id == span.span_id}
        assert steps == {"robots", "settle"}
    return [span for span in pages if span not in released]


def _check_pipelines(collector: Collector, *pages: SeenSpan) -> None:
    """Each stage has a span, and the write in each pipeline, until the page is stored for good.

    The stage that has failed says why, and the write of the page that is undelivered.
    """
    for one in pages:
        below = [s for s in collector.of(one.trace_id) if s.service == "pipeline"]
        assert {s.parent_id for s in below} == {one.span_id}
        by_name = {(s.attributes["crawlstream.pipeline"], s.name): s for s in below}
        stages = [by_name.pop(("shop", name)) for name in ("stage.page", "stage.product")]
        assert set(by_name) == {("shop", "write"), ("plain", "write")}
        chain = [*stages, by_name["shop", "write"]]
        for before, after in pairwise(chain):
            assert one.begin <= before.begin <= before.end <= after.begin <= after.end
        assert by_name["plain", "write"].attributes["crawlstream.outcome"] == "delivered"
        is_unpriced = one is pages[-1]
        assert [s.error for s in chain] == ["", *["stage_failed" if is_unpriced else ""] * 2]
        outcome = "undelivered" if is_unpriced else "filtered"
        assert by_name["shop", "write"].attributes["crawlstream.outcome"] == outcome


async def _crawl(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite, crawlid: str, **env: str
) -> dict[str, str]:
    """Crawl two pages and one that fails; return the ids of the pages by their paths."""
    common = {"appid": "traces", "crawlid": crawlid, "maxdepth": 1}
    with (
        cluster.kafka_monitor(**env),
        cluster.redis_monitor(),
        cluster.crawler("link", **OBEYS, **env),
    ):
        for path in ("/", "/loop"):
            witness.feed({"url": site.url(path), **common})
        await witness.ended(crawlid)
    found = [value for value, _ in results(cluster) if value["crawlid"] == crawlid]
    return {value["url"].removeprefix(site.url("")): value["id"] for value in found}


async def test_each_page_is_one_trace_though_processes_are_killed(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil, tmp_path: Path
) -> None:
    """A kafka-monitor, a crawler and a pipeline die in mid-step; others repeat their work.

    The laws of a chaos round judge: each process decides by itself which pages are sampled, a page
    that comes again is in its trace, and each span is below one that has come or that a result
    names. Each dies before it has ended anything, so no span of an end may be missing.
    """
    file = tmp_path / "pipelines.toml"
    file.write_text(PIPELINES.format(place=tmp_path / "out", edition=2))
    await open_throttle(cluster)
    with collecting() as collector, serving({}) as site, ExitStack() as stack:
        on = {**collector.settings(SHARE), **OBEYS}
        paths = [f"/{n}" for n in range(60)]
        site.pages |= {"/": page(*paths), **dict.fromkeys(paths, page())}
        stack.enter_context(cluster.redis_monitor())
        seed = {"appid": "traces", "crawlid": "struck", "maxdepth": 1}
        witness.feed(*({"url": site.url(path), **seed} for path in ("/", *paths[:20])))
        with cluster.kafka_monitor(FAILPOINT="after_put:kill", **on) as doomed:
            assert doomed.wait() == -signal.SIGKILL
        stack.enter_context(cluster.kafka_monitor(**on))
        with cluster.crawler("link", FAILPOINT="after_publish:kill", **on) as crawler:
            assert crawler.wait() == -signal.SIGKILL
        stack.enter_context(cluster.crawler("link", **on))
        on["PYTHONPATH"] = cluster.python_path(TESTS)
        with cluster.pipelines(file, FAILPOINT="before_claim:kill", **on) as doomed:
            assert doomed.wait() == -signal.SIGKILL
        stack.enter_context(cluster.pipelines(file, **on))
        await witness.ended("struck")

        def facts() -> Facts:
            return Facts(fed=[], records=_records(cluster, "struck"), spans=collector.spans)

        await wait_until(lambda: not list(missing(facts())))
        sampled = {r.value["id"] for r in facts().records if is_in_share(r.value["id"], SHARE)}
        await wait_until(lambda: all(_is_stored(collector, each) for each in sampled))
        assert sampled
        assert {name: list(law(facts())) for name, law in LAWS.items()} == {
            name: [] for name in LAWS
        }


def _is_stored(collector: Collector, trace_id: str) -> bool:
    """Return whether both pipelines have written a page."""
    writes = collector.of(trace_id, "write")
    return {each.attributes["crawlstream.pipeline"] for each in writes} == {"shop", "plain"}


def _records(cluster: MonitorCluster, crawlid: str) -> list[TopicRecord]:
    """Return the results of a crawl, with the traces that they name."""
    return [
        TopicRecord(
            topic=cluster.topics.crawled.removeprefix(f"{cluster.prefix}."),
            key=value["id"],
            value={**value, **{name: text.decode() for name, text in headers.items()}},
            partition=0,
            offset=number,
            at=0,
        )
        for number, (value, headers) in enumerate(results(cluster))
        if value["crawlid"] == crawlid
    ]
