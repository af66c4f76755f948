"""Passwords of proxies: in ZooKeeper, in Redis' table of pools, in memory, and nowhere else."""

from __future__ import annotations

import base64
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream_chaos.processes import LoggedCrawler
from crawlstream_chaos.scripted_site import CrawlerSite, page
from crawlstream_cli.local.ports import free_block
from support.crawler.cluster import CrawlerCluster
from support.crawler.proxies import dead_port, small_proxy

pytest_plugins = ["support.crawler.fixtures"]

PATIENCE_S = 180
PAGES = [f"/{number}" for number in range(12)]
CANARIES = [f"CANARY{number}" for number in range(12)]
FORMS = [
    b"CANARY",
    b"CAN%41RY",
    *(base64.b64encode(f"u:{canary}".encode()).rstrip(b"=") for canary in CANARIES),
]
"""As they are written, and as they are sent."""


def lines(well: str, locked: str) -> list[str]:
    """Twelve ways to have a password, most of them of proxies that fail."""
    dead = f"127.0.0.1:{dead_port()}"
    return [
        f"http://u:CANARY0@{well}",
        f"http://u:CANARY1@{locked}",
        f"http://u:CANARY2@{dead}",
        f"https://u:CANARY3@{well}",
        f"socks5://u:CANARY4@{well}",
        f"socks5://u:CANARY5@{locked}",
        f"http://u6:CAN%41RY6@{locked}",
        f"{{url: 'http://u-{{session}}:CANARY7-{{session}}@{locked}', sessions: 2}}",
        f"socks5://u8:CANARY8%C3%A9@{dead}",
        "http://u:${PROXY_WORD}@nowhere.invalid:80",
        f"{{url: 'http://u10:CANARY10@{locked}', disabled: true}}",
        f"http://u11:${{MISSING}}CANARY11@{dead}",
    ]


def places(crawler: LoggedCrawler, port: str, home: Path) -> Iterator[tuple[str, bytes]]:
    """Visible output of a crawler: arguments, metrics, every file that it has written."""
    process = psutil.Process(crawler.pid)
    for each in (process, *process.children(recursive=True)):
        yield "ps", " ".join(each.cmdline()).encode()
    for path in ("metrics", "health"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as told:
            yield path, told.read()
    for file in home.rglob("*"):
        if file.is_file():
            yield str(file), file.read_bytes()


async def values(redis: Redis) -> Iterator[tuple[str, bytes]]:
    """All of Redis but the table of pools, as text."""
    found = []
    async for key in redis.scan_iter(match=f"{FrontierKeys().tag}*"):
        name = key.decode()
        if name != FrontierKeys().proxies():
            found.append((name, await redis.dump(key) or b""))
    return iter(found)


async def test_passwords_are_nowhere_else(
    cluster: CrawlerCluster, site: CrawlerSite, secret: CrawlerSite, redis: Redis
) -> None:
    """Shows passwords in no logs, topics, metrics, other Redis keys, arguments or files.

    Nor where pages are requested with the TLS of a browser.
    """
    site.pages |= dict.fromkeys(PAGES, page())
    secret.pages |= dict.fromkeys(PAGES, page())
    await redis.config_set("rdbcompression", "no")  # The answer of DUMP is to be read.
    with small_proxy() as well, small_proxy(user="u", password="other") as locked:
        written, port = lines(well.url, locked.url), str(free_block(1))
        assert len(written) == len(CANARIES)
        table = "".join(f"  - {line}\n" for line in written)
        await cluster.set_pools(f"pools:\n de:\n  spread: 12\n  proxies:\n{table}")
        settings = {"CRAWLSTREAM_METRICS_PORT": port, "CRAWLSTREAM_TLS_PROFILES": "default,chrome"}
        with cluster.worker(PROXY_WORD="CANARY9", **settings) as crawler:
            crawls = [
                await cluster.feed(*map(site.url, PAGES), proxy="de"),
                await cluster.feed(
                    *map(secret.url, PAGES), crawlid="browser", proxy="de", tls="chrome"
                ),
            ]
            for crawl in crawls:
                await cluster.end_of(crawl, timeout_s=PATIENCE_S)
            seen = [*places(crawler, port, cluster.home), *await values(redis)]
    topics = cluster.topics.all()
    seen += [(topic, repr(cluster.records(topic)).encode()) for topic in topics]
    assert {"metrics", "health", "ps", cluster.topics.crawled} <= {name for name, _ in seen}
    results = cluster.results()
    # Pages that met nothing but bad proxies have failed, which is published as well.
    assert {result.get("tls_profile") for result in results} == {None, "chrome"}
    assert len(results) + len(cluster.failures()) == 2 * len(PAGES)
    assert "proxies" in crawler.logged()
    for name, content in seen:
        for form in FORMS:
            assert form not in content, name
