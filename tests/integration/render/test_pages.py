"""Pages that a browser makes, between a real frontier and a real Kafka."""

from __future__ import annotations

import os
import signal
from base64 import b64decode
from collections import Counter

import psutil

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.spa import html, linking, made_by, script, tree
from support.waiting import wait_until

pytest_plugins = ["support.crawler.fixtures"]

RENDERS = {"CRAWLSTREAM_RENDER": "true"}


def browsers_of(pid: int) -> list[psutil.Process]:
    """Processes that a crawler has started."""
    return psutil.Process(pid).children(recursive=True)


def is_alive(process: psutil.Process) -> bool:
    """Return whether it runs; an ended one may wait for its parent to take notice."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_links_that_only_scripts_make_are_followed(cluster: CrawlerCluster) -> None:
    """All pages of a site are delivered once as a browser shows them, each with its picture.

    A crawler without a browser has none of them, and fetches another crawl meanwhile. Nothing of
    the browser is left when its crawler has ended.
    """
    with serving(tree(12)) as site, cluster.worker(), cluster.worker(**RENDERS) as renderer:
        render = {"screenshot": "full"}
        crawl = await cluster.feed(site.url("/1"), maxdepth=5, render=render)
        plain = await cluster.feed(site.url("/1", host="127.0.0.2"), crawlid="plain", maxdepth=5)
        state = await cluster.end_of(crawl, timeout_s=90)
        assert (state.done, state.failed) == (12, 0)
        assert (await cluster.end_of(plain, timeout_s=30)).done == 1
        started = browsers_of(renderer.pid)
        assert started
    await wait_until(lambda: not any(map(is_alive, started)), timeout_s=15)
    results = [each for each in cluster.results() if each["crawlid"] == "crawl"]
    assert counted(results) == {site.url(f"/{n}"): 1 for n in range(1, 13)}
    assert all(record["render"]["complete"] for record in results)
    assert all(record["screenshot"]["width"] == 1280 for record in results)
    assert all(b64decode(record["screenshot_body"]).startswith(b"\x89PNG") for record in results)


async def test_a_site_sees_no_more_than_its_rule_allows(cluster: CrawlerCluster) -> None:
    """Documents within its hits in any window, and for each of them what `render` allows."""
    await cluster.set_rules(ThrottleRule(hits=2, window_s=1.0, moderated=False, render=3), {})
    code = "for (let n = 0; n < 9; n++) fetch('/data/' + location.pathname + n);"
    links = linking(*(f"/{n}" for n in range(8)))
    pages = {f"/{n}": made_by(links + code) for n in range(8)}
    worker = cluster.worker(**RENDERS, ROBOTSTXT_OBEY="true")
    with serving({**pages, "/robots.txt": Answer(b"", 404)}) as site, worker:
        crawl = await cluster.feed(site.url("/0"), maxdepth=1, render={})
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == 8
    documents = sorted(v.at for v in site.visits if not v.path.startswith("/data/"))
    further = Counter(v.path[:-1] for v in site.visits if v.path.startswith("/data/"))
    assert _most_within(1.0, documents) <= 2
    assert further == {f"/data//{n}": 3 for n in range(8)}


def _most_within(seconds: float, moments: list[float]) -> int:
    return max(
        sum(begin <= each < begin + seconds for each in moments[at:])
        for at, begin in enumerate(moments)
    )


async def test_what_a_script_leads_to_goes_through_the_frontier(cluster: CrawlerCluster) -> None:
    """Redirects and navigations are fetched once, as pages of their own; robots.txt holds there."""
    answers = {
        "/": html(linked("/moved", "/script", "/refresh", "/leads")),
        "/moved": Answer(b"", 301, {"Location": "/a", "Set-Cookie": "seen=1"}),
        "/script": made_by("location = '/b'"),
        "/refresh": html("<meta http-equiv=refresh content='0; url=/c'>"),
        "/leads": made_by("location = '/secret'"),
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /secret\n", headers={}),
        "/app.js": script(""),
    }
    for name in "abc":
        answers[f"/{name}"] = made_by(f"document.title = '{name}' + document.cookie")
    with serving(answers) as site, cluster.worker(**RENDERS, ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(site.url("/"), maxdepth=1, render={})
        state = await cluster.end_of(crawl, timeout_s=90)
    found = {record["url"]: record for record in cluster.results()}
    assert set(found) == {site.url(path) for path in ("/", "/a", "/b", "/c")}
    assert "<title>aseen=1</title>" in found[site.url("/a")]["body"]
    assert found[site.url("/b")]["redirect_urls"] == [site.url("/script")]
    assert "/secret" not in site.paths()
    assert (state.done, state.redirected) == (4, 4), cluster.failures()


def linked(*links: str) -> str:
    """A page of links that needs no script."""
    return "".join(f"<a href={link}>{link}</a>" for link in links)


async def test_pages_survive_their_browser_and_their_crawler(cluster: CrawlerCluster) -> None:
    """Killed, either gives its pages back: all are delivered, and no process is left."""
    pages = tree(15)
    slow = {path: page for path, page in pages.items() if path.startswith("/api")}
    assert slow
    with serving(pages) as site:
        with cluster.worker(**RENDERS) as renderer:
            crawl = await cluster.feed(site.url("/1"), maxdepth=5, render={})
            await wait_until(lambda: len(site.paths()) > 3, timeout_s=60)
            for each in browsers_of(renderer.pid)[:1]:
                each.kill()
            await wait_until(lambda: len(site.paths()) > 12, timeout_s=60)
            started = browsers_of(renderer.pid)
            os.kill(renderer.pid, signal.SIGKILL)
        await wait_until(lambda: not any(map(is_alive, started)), timeout_s=15)
        with cluster.worker(**RENDERS):
            state = await cluster.end_of(crawl, timeout_s=150)
    assert (state.done, state.failed) == (15, 0)
    assert {record["url"] for record in cluster.results()} == {
        site.url(f"/{n}") for n in range(1, 16)
    }
