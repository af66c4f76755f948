"""Requests of a crawler that has a key: each one is signed, by what its site can verify."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from pathlib import Path

from crawlstream.signing.keys import Key, new_key
from crawlstream_chaos.laws.signatures import Verifier
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page, SeenRequest, page, serving
from crawlstream_cli.local.ports import free_block
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

AGENT = "https://bot.example"


class Moody:
    """A page that fails at first, and then leads to another host."""

    def __init__(self) -> None:
        self.visits = 0

    def __call__(self, visit: SeenRequest) -> Answer:
        """Answer one visitor."""
        self.visits += 1
        port = visit.headers["host"].partition(":")[2]
        if self.visits == 1:
            return Answer(status=500)
        return Answer(status=302, headers={"Location": f"http://127.0.0.2:{port}/moved"})


def _verify(site: CrawlerSite, key: Key) -> None:
    """Verify each request of a site's log, at the time when it came."""
    verifier = Verifier({key.keyid: key.x})
    for visit in site.visits:
        authority = visit.headers["host"]
        said = verifier.verify(visit.headers, authority=authority, now=visit.at)
        assert said["keyid"] == key.keyid
        assert visit.headers["signature-agent"] == f'"{AGENT}"'


def _refused(port: int) -> dict[str, str]:
    """Return the count of refused signatures by code."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    name = r'^crawlstream_signatures_refused_total\{code="(\w+)"\} (\S+)'
    return dict(re.findall(name, metrics, re.MULTILINE))


@both_ways
async def test_each_sending_is_signed_for_its_own_host(
    cluster: CrawlerCluster, tmp_path: Path
) -> None:
    """robots.txt, seeds, retries, redirects and links; a crawl's own words for it are left out."""
    key = new_key(tmp_path / "key.pem")
    signing = {
        "CRAWLSTREAM_SIGNING_KEYS": str(tmp_path / "key.pem"),
        "CRAWLSTREAM_SIGNATURE_AGENT": AGENT,
    }
    pages: dict[str, Page] = {
        "/seed": page("/link"),
        "/link": page(),
        "/moody": Moody(),
        "/moved": page(),
        "/robots.txt": Answer(b"User-agent: *\nAllow: /\n", headers={}),
    }
    with serving(pages) as site:
        with cluster.worker(RETRY_TIMES="1", ROBOTSTXT_OBEY="true", **signing) as worker:
            own = {"Signature": "sig1=:bWluZQ==:", "Crawler-Max-Price": "USD 9", "X-Own": "kept"}
            crawl = await cluster.ask(
                {"url": site.url("/seed"), "maxdepth": 1, "headers": own},
                {"url": site.url("/moody"), "headers": own},
            )
            await cluster.end_of(crawl, timeout_s=30)
            left_out = [e for e in worker.events() if e["event"] == "headers_left_out"]
        _verify(site, key)
        asked = [(visit.host, visit.path) for visit in site.visits]
        seeds = [visit.headers for visit in site.visits if visit.path == "/seed"]
    assert sorted(asked) == [
        ("127.0.0.1", "/link"),
        ("127.0.0.1", "/moody"),
        ("127.0.0.1", "/moody"),
        ("127.0.0.1", "/robots.txt"),
        ("127.0.0.1", "/seed"),
        ("127.0.0.2", "/moved"),
        ("127.0.0.2", "/robots.txt"),
    ]
    assert {result["signed"] for result in cluster.results()} == {key.keyid}
    (told,) = left_out
    assert told["headers"] == ["Crawler-Max-Price", "Signature"]
    (headers,) = seeds
    assert "crawler-max-price" not in headers
    assert headers["x-own"] == "kept"


async def test_a_crawler_that_cannot_read_its_key_does_not_start(
    cluster: CrawlerCluster, tmp_path: Path
) -> None:
    """It ends with 2 and a sentence; its pages wait, and nothing leaves unsigned."""
    path = tmp_path / "gone.pem"
    signing = {"CRAWLSTREAM_SIGNING_KEYS": str(path), "CRAWLSTREAM_SIGNATURE_AGENT": AGENT}
    with serving({"/": page()}) as site:
        await cluster.ask({"url": site.url("/")})
        with cluster.worker(**signing) as worker:
            assert worker.wait(timeout_s=30) == 2
            assert f"cannot read the signing key {path}" in worker.logged()
        assert site.visits == []


async def test_refused_signatures_are_counted(cluster: CrawlerCluster, tmp_path: Path) -> None:
    """Counts refused signatures by the site's own code; the answer is the result."""
    new_key(tmp_path / "key.pem")
    signing = {
        "CRAWLSTREAM_SIGNING_KEYS": str(tmp_path / "key.pem"),
        "CRAWLSTREAM_SIGNATURE_AGENT": AGENT,
        "CRAWLSTREAM_METRICS_PORT": str(port := free_block(1)),
    }
    pages: dict[str, Page] = {
        "/bad": Answer(status=400, headers={"Crawler-Error": "InvalidSignature"}),
        "/odd": Answer(status=400, headers={"Crawler-Error": "Whatever"}),
        "/more": Answer(status=401, headers={"Accept-Signature": 'sig1=("@method")'}),
        "/good": page(),
    }
    with serving(pages) as site, cluster.worker(**signing):
        crawl = await cluster.ask(*({"url": site.url(path)} for path in pages))
        await cluster.end_of(crawl, timeout_s=30)
        found = await asyncio.to_thread(_refused, port)
    assert found == {"InvalidSignature": "1.0", "other": "1.0", "accept_signature": "1.0"}
    assert {result["status_code"] for result in cluster.results()} == {200, 400, 401}


async def test_without_keys_nothing_is_added(cluster: CrawlerCluster) -> None:
    """Without keys, adds no header, and sends the headers of a crawl unchanged."""
    with serving({"/": page()}) as site:
        with cluster.worker():
            await cluster.end_of(
                await cluster.ask(
                    {"url": site.url("/"), "headers": {"Signature": "sig1=:bWluZQ==:"}}
                ),
                timeout_s=30,
            )
        (visit,) = site.visits
    assert visit.headers["signature"] == "sig1=:bWluZQ==:"
    assert "signature-input" not in visit.headers
    assert "signed" not in cluster.results()[0]
    assert visit.at <= time.time()
