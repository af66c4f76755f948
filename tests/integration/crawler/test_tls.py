"""Sites behind TLS: crawled as others are, and no faster than their rules say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.tls import TlsSite, make_certificate
from support.crawler.ways import both_ways
from support.windows import spaced

pytest_plugins = ["support.crawler.fixtures"]

STAMP_S = 0.001
"""Rounding of stamps."""


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[TlsSite]:
    """An empty web behind TLS."""
    with serving({}, kind=TlsSite) as site:
        assert isinstance(site, TlsSite)
        site.certify(make_certificate(tmp_path))
        yield site


async def test_links_lead_into_tls_and_out_of_it(
    cluster: CrawlerCluster, site: CrawlerSite, secret: TlsSite
) -> None:
    """Every page comes once; the pages of a host share its connection."""
    inner = [f"/{number}" for number in range(8)]
    site.pages |= {"/": page(secret.url("/")), "/back": page()}
    secret.pages |= {"/": page(*inner), **{path: page(site.url("/back")) for path in inner}}
    await cluster.set_rules(spaced(1_000, 1, concurrency=1), {})
    with cluster.worker():
        crawl = await cluster.feed(site.url("/"), maxdepth=3)
        state = await cluster.end_of(crawl, timeout_s=90)
    urls = {site.url("/"), site.url("/back"), secret.url("/"), *map(secret.url, inner)}
    assert counted(cluster.results()) == dict.fromkeys(urls, 1)
    assert (state.done, state.failed) == (len(urls), 0)
    assert secret.handshakes < len(secret.visits)


@both_ways
async def test_slow_handshakes_bring_no_request_too_early(
    cluster: CrawlerCluster, secret: TlsSite
) -> None:
    """The pause between two requests begins when the first has left, and a handshake is before."""
    secret.handshake_s = 0.35
    seeds = [secret.url(f"/{number}") for number in range(8)]
    secret.pages |= {f"/{number}": page() for number in range(8)}
    await cluster.set_rules(spaced(5, 1), {})
    with cluster.worker():
        crawl = await cluster.feed(*seeds)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == len(seeds)
    times = sorted(visit.at for visit in secret.visits)
    assert min(later - earlier for earlier, later in pairwise(times)) >= 0.2 - STAMP_S


@both_ways
async def test_a_site_that_cannot_show_who_it_is_fails_by_name(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Fails a site without a valid certificate after its attempts; the crawl continues."""
    with serving({}, kind=TlsSite) as nobody:
        site.pages |= {"/": page(nobody.url("/"), "/other"), "/other": page()}
        with cluster.worker(RETRY_TIMES="1"):
            crawl = await cluster.feed(site.url("/"), maxdepth=1)
            state = await cluster.end_of(crawl, timeout_s=90)
        assert cluster.failures() == {nobody.url("/"): "tls"}
    assert (state.done, state.failed) == (2, 1)


@both_ways
async def test_secrets_are_sent_to_no_server_that_cannot_prove_who_it_is(
    cluster: CrawlerCluster, secret: TlsSite
) -> None:
    """Sends secrets to no unverified server, and not over a connection kept from others."""
    secret.pages |= {path: page() for path in ("/open", "/cookie", "/header", "/language")}
    urls = {path: secret.url(path) for path in secret.pages}
    with cluster.worker():
        first = await cluster.feed(urls["/open"], crawlid="open")
        await cluster.end_of(first, timeout_s=90)
        crawls = [
            await cluster.feed(urls["/cookie"], crawlid="cookie", cookies={"a": "1"}),
            await cluster.feed(urls["/header"], crawlid="header", headers={"X-Api-Key": "1"}),
            await cluster.feed(urls["/language"], crawlid="lang", headers={"Accept-Language": "l"}),
        ]
        for crawl in crawls:
            await cluster.end_of(crawl, timeout_s=90)
    assert cluster.failures() == dict.fromkeys((urls["/cookie"], urls["/header"]), "certificate")
    assert counted(cluster.results()) == {urls["/open"]: 1, urls["/language"]: 1}
    assert {visit.path for visit in secret.visits} == {"/open", "/language"}


@both_ways
async def test_a_certificate_that_holds_is_for_its_own_name(
    cluster: CrawlerCluster, secret: TlsSite, tmp_path: Path
) -> None:
    """Signed by an authority that the machine trusts, and for the requested host."""
    secret.pages |= {"/a": page(), "/b": page()}
    good, other = secret.url("/a"), secret.url("/b", host="127.0.0.2")
    with cluster.worker(SSL_CERT_FILE=str(tmp_path / "site.pem")):
        crawl = await cluster.feed(good, other, cookie="secret=1")
        await cluster.end_of(crawl, timeout_s=90)
    assert counted(cluster.results()) == {good: 1}
    assert cluster.failures() == {other: "certificate"}


@pytest.mark.parametrize("verifies", ["true", "false"])
async def test_the_operator_decides_about_certificates(
    cluster: CrawlerCluster, secret: TlsSite, verifies: str
) -> None:
    """Verifies certificates always or never if the operator says so, whatever a request has."""
    secret.pages |= {"/a": page(), "/b": page()}
    with cluster.worker(DOWNLOAD_VERIFY_CERTIFICATES=verifies):
        crawls = [
            await cluster.feed(secret.url("/a"), crawlid="bare"),
            await cluster.feed(secret.url("/b"), crawlid="carries", cookie="secret=1"),
        ]
        for crawl in crawls:
            await cluster.end_of(crawl, timeout_s=90)
    urls = {secret.url("/a"), secret.url("/b")}
    assert set(cluster.failures()) == (urls if verifies == "true" else set())
    assert set(counted(cluster.results())) == (urls if verifies == "false" else set())
