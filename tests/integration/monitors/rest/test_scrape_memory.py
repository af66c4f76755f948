"""Memory of REST while clients scrape large pages and do not read them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
from kafka import KafkaProducer

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.wire import replies
from crawlstream.wire.results import encode_result
from crawlstream_frontier.scrapes.scrape_names import ScrapeNames
from support.monitors import MonitorCluster
from support.pipelines.results import PAGE, page_id
from support.rest import RestProcess, running_rest
from support.waiting import WaitUntil

SCRAPES, PAGES, BYTES = 40, 2, 4 * 1024 * 1024
BUDGET = 16 * 1024 * 1024
MOST = 5 * BUDGET
"""Twice what pages in work may have, and as much for what is read from Kafka at a time. Without a
bound, the answers alone take 200 MiB."""
UNREAD_S = 4
"""Shorter than a scrape waits for its turn, and long enough to make all answers."""
PEERS = ("127.0.0.2", "127.0.0.3")

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def publish(cluster: MonitorCluster) -> Sequence[str]:
    """Publish large pages, and replies to scrapes of them; return the ids."""
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts, max_request_size=4 * BYTES)
    names, placed = ScrapeNames(), []
    for number in range(PAGES):
        page = replace(
            PAGE,
            id=page_id(number),
            crawl=CrawlKey("link", "scrape", "job"),
            body=os.urandom(BYTES),
            encoding=None,
            response_headers={b"Content-Type": [b"application/octet-stream"]},
        )
        record = encode_result(page)
        sent = producer.send(cluster.topics.crawled, record, key=page.id.encode()).get(60)
        placed.append((page, RecordPlace("topic", sent.partition, sent.offset)))
    ids = [names.new(120).id for _ in range(SCRAPES)]
    for number, name in enumerate(ids):
        page, place = placed[number % PAGES]
        reply = PageReply(
            uuid=name,
            crawl=page.crawl,
            run=1,
            server_time=int(time.time()),
            id=page.id,
            url=page.url,
            status_code=200,
            body_size=BYTES,
            place=place,
        )
        producer.send(cluster.topics.outbound, replies.page(reply)).get(60)
    producer.close()
    return ids


@asynccontextmanager
async def watched(rest: RestProcess) -> AsyncIterator[list[int]]:
    """Note again and again what REST has in RAM alone; its workers are left out."""
    process, found = psutil.Process(rest.process.pid), list[int]()

    async def watch() -> None:
        while True:
            found.append((await asyncio.to_thread(process.memory_full_info)).pss)
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    try:
        yield found
    finally:
        watching.cancel()


async def begin(rest: RestProcess, name: str, peer: str) -> Connection:
    """Request a page, and read nothing."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", rest.port, limit=1024, local_addr=(peer, 0)
    )
    path = f"/v2/scrape/{name}?formats=raw"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return reader, writer


async def read(connection: Connection) -> tuple[int, int]:
    """Return the status of an answer, and its size."""
    reader, writer = connection
    status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
    size = 0
    while piece := await reader.read(1 << 20):
        size += len(piece)
    writer.close()
    return status, size


async def test_answers_that_are_not_read_have_a_bound(
    cluster: MonitorCluster, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Forty answers of 5.3 MiB take no more than pages in work may, and come when they are read."""
    ids = await asyncio.to_thread(publish, cluster)
    with running_rest(cluster, tmp_path, CRAWLSTREAM_SCRAPE_BYTES=str(BUDGET)) as rest:
        async with watched(rest) as found:
            await wait_until(lambda: found)
            before = found[-1]
            connections = [
                await begin(rest, name, PEERS[number % len(PEERS)])
                for number, name in enumerate(ids)
            ]
            await asyncio.sleep(UNREAD_S)
            assert max(found) - before < MOST
        answers = await asyncio.gather(*map(read, connections))
    whole = [size for status, size in answers if status == 200]
    assert {status for status, _ in answers} <= {200, 503}
    assert len(whole) >= SCRAPES // 5
    assert min(whole) > BYTES * 4 // 3
