"""A client that waits for a page gets a pointer to its result, from a crawler on a real Kafka."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import topic_id_of
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

WANTED: dict[str, Any] = {"answer": "page", "uuid": "u1"}


def replies(cluster: CrawlerCluster) -> list[dict[str, Any]]:
    """Everything on the topic of replies."""
    return cluster.records(cluster.topics.outbound)


def key_at(cluster: CrawlerCluster, reply: dict[str, Any]) -> str:
    """The key of the record that a reply points to."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.env["KAFKA_HOSTS"])
    try:
        where = TopicPartition(cluster.topics.crawled, reply["partition"])
        consumer.assign([where])
        consumer.seek(where, reply["offset"])
        (record, *_), *_ = consumer.poll(timeout_ms=10_000).values()
        assert record.offset == reply["offset"]
        return bytes(record.key).decode()
    finally:
        consumer.close()


@both_ways
async def test_the_reply_names_the_record_of_the_page(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The seed alone is answered, also if links below it are followed, and others around it."""
    site.pages |= {"/": page("/a", "/b"), "/a": page(), "/b": page(), "/other": page()}
    with cluster.worker():
        await cluster.ask({"url": site.url("/other"), "crawlid": "before"})
        crawl = await cluster.ask({"url": site.url("/"), "maxdepth": 1, **WANTED})
        await cluster.end_of(crawl, timeout_s=60)
    (reply,) = replies(cluster)
    (result,) = [each for each in cluster.results() if each["url"] == site.url("/")]
    same = ("id", "url", "run", "appid", "crawlid", "status_code", "digest", "body_size")
    assert {name: reply[name] for name in same} == {name: result[name] for name in same}
    assert (reply["action"], reply["uuid"], reply["mime"]) == ("page", "u1", "text/html")
    assert key_at(cluster, reply) == result["id"]
    kafka = Kafka([cluster.env["KAFKA_HOSTS"]])
    assert reply["topic_id"] == await topic_id_of(kafka, cluster.topics.crawled)


async def test_the_end_of_the_redirects_answers(cluster: CrawlerCluster, site: CrawlerSite) -> None:
    """Answers with the URL of the last page; any status is a result, on both reply topics."""
    site.pages |= {
        "/old": Answer(status=301, headers={"Location": "/new"}),
        "/new": Answer(status=302, headers={"Location": "/gone"}),
    }
    with cluster.worker(KAFKA_APPID_TOPICS="true", CRAWLSTREAM_INCOMING_PARTITIONS="1"):
        crawl = await cluster.ask({"url": site.url("/old"), **WANTED})
        await cluster.end_of(crawl, timeout_s=60)
    (reply,) = replies(cluster)
    assert (reply["url"], reply["status_code"]) == (site.url("/gone"), 404)
    assert key_at(cluster, reply) == reply["id"]
    own = cluster.topics.for_app(cluster.topics.outbound, crawl.appid)
    assert own is not None
    assert cluster.records(own) == [reply]


async def test_a_seed_that_is_fed_twice_is_answered_twice(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """A seed is always fetched, also if its page is known or in flight: each uuid has its reply."""
    site.pages["/"] = Answer(b"<p>", after_s=0.5)
    with cluster.worker():
        asked = [{"url": site.url("/"), **WANTED, "uuid": uuid} for uuid in ("u1", "u2")]
        crawl = await cluster.ask(*asked)
        await cluster.end_of(crawl, timeout_s=60)
    assert {reply["uuid"] for reply in replies(cluster)} == {"u1", "u2"}
    assert len({reply["offset"] for reply in replies(cluster)}) == 2


async def test_a_page_that_fails_is_answered_with_its_reason(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Robots.txt, a server that is away, an address that is not allowed, a redirect to itself."""
    site.pages |= {
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /secret", headers={}),
        "/loop": Answer(status=302, headers={"Location": "/loop"}),
    }
    urls = {
        site.url("/secret"): "robots",
        "http://127.0.0.9:1/": "refused",
        "http://10.0.0.1/": "address_refused",
        site.url("/loop"): "redirect_loop",
    }
    with cluster.worker(ROBOTSTXT_OBEY="true", RETRY_TIMES="1"):
        crawl = await cluster.ask(*({"url": url, **WANTED, "uuid": url[-30:]} for url in urls))
        await cluster.end_of(crawl, timeout_s=60)
    told = replies(cluster)
    assert {reply["url"]: reply["reason"] for reply in told} == urls
    assert all("partition" not in reply and reply["attempts"] >= 1 for reply in told)
    assert {reply["uuid"] for reply in told} == {url[-30:] for url in urls}


async def test_a_death_between_result_and_reply_repeats_both(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The page is fetched again under the same id, and the reply names one of its records."""
    site.pages["/"] = page()
    crawl = await cluster.ask({"url": site.url("/"), **WANTED})
    with cluster.worker(FAILPOINT="before_reply:kill") as doomed:
        assert doomed.wait() == -signal.SIGKILL
    assert len(cluster.results()) == 1
    assert not replies(cluster)
    with cluster.worker():
        await cluster.end_of(crawl, timeout_s=60)
    (reply,) = replies(cluster)
    first, second = cluster.results()
    assert first["id"] == second["id"] == reply["id"]
    assert key_at(cluster, reply) == reply["id"]


async def test_a_death_after_the_reply_repeats_it(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The frontier does not know that it was sent; the first reply stays true."""
    site.pages["/"] = page()
    crawl = await cluster.ask({"url": site.url("/"), **WANTED})
    with cluster.worker(FAILPOINT="before_settle:kill") as doomed:
        assert await asyncio.to_thread(doomed.wait) == -signal.SIGKILL
    with cluster.worker():
        await cluster.end_of(crawl, timeout_s=60)
    told = replies(cluster)
    assert len({reply["id"] for reply in told}) == 1
    assert {key_at(cluster, reply) for reply in told} == {told[0]["id"]}
