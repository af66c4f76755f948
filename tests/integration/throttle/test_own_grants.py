"""Every request has a grant of its own site, whatever its origin: the site's log shows it."""

from __future__ import annotations

import itertools
import os
import textwrap
from pathlib import Path

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster
from support.crawler.ways import both_ways
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

WINDOW_S = 2.0
STAMP_S = 0.05
"""The site's stamps may be so much off."""
SLOW = ThrottleRule(hits=1, window_s=WINDOW_S)
NARROW, FAR, BLOCKED = "shop.crawltest.com", "far-crawltest.com", "blocked.crawltest.com"
"""A host with a rule of its own in a domain that has none, another domain, and a closed host."""

RESOLVES = """
import socket
real = socket.getaddrinfo
def ours(host, *args, **named):
    if str(host).rstrip(".").lower().endswith("crawltest.com"):
        host = "127.0.0.1"
    return real(host, *args, **named)
socket.getaddrinfo = ours
"""
SWAPPING = """
from urllib.parse import parse_qs, urlsplit
from crawling.spiders.link import LinkSpider

class Swaps:
    def process_request(self, request):
        asked = parse_qs(urlsplit(request.url).query)
        if "replaced" in asked:
            return request.replace(url=asked["replaced"][0])
        if "changed" in asked:
            request._set_url(asked["changed"][0])

    def process_response(self, request, response):
        asked = parse_qs(urlsplit(request.url).query)
        return request.replace(url=asked["answered"][0]) if "answered" in asked else response

class Swapping(LinkSpider):
    name = "link"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Swaps: 600}}
"""


def moved(to: str) -> Answer:
    """A redirect."""
    return Answer(status=301, headers={"Location": to})


def text(words: str) -> Answer:
    """A robots.txt."""
    return Answer(words.encode(), headers={"Content-Type": "text/plain"})


def sources(site: CrawlerSite, target: str, rules: str, way: str) -> list[str]:
    """Pages, each of which leads to a target in another way; what they are on is added to a site.

    Requests of middlewares are only there where Scrapy's engine is.
    """
    name, port = target.partition(".")[0], site.port
    hosts = [f"{name}-{n}.crawltest.com" for n in range(3)]
    for host in hosts:
        site.pages[f"{host}/robots.txt"] = moved(site.url(rules, target))
    site.pages[f"/to-{name}"] = moved(site.url("/moved", target))
    site.pages[f"/links-{name}"] = page(f"http://{target.upper()}.:{port}/linked")
    seeds = [site.url(path, host) for host in hosts for path in ("/x", "/private")]
    seeds += [site.url(f"/{kind}-{name}", "www.crawltest.com") for kind in ("to", "links")]
    if way == "engine":
        swaps = {"replaced": target, "changed": target, "answered": f"{target.upper()}."}
        seeds += [
            site.url(f"/{kind}?{kind}=http://{to}:{port}/{kind}-there", "www.crawltest.com")
            for kind, to in swaps.items()
        ]
    return seeds


@both_ways
async def test_no_window_of_a_site_is_exceeded_whatever_leads_to_it(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    wait_until: WaitUntil,
    tmp_path: Path,
    way: str,
) -> None:
    """Redirects of pages and robots.txt, links and middlewares; a closed host is never asked.

    A robots.txt on another site is obeyed, and no page goes on before it is known.
    """
    await cluster.set_rules(WIDE_OPEN, {NARROW: SLOW, FAR: SLOW}, frozenset({BLOCKED}))
    site.pages |= dict.fromkeys(("/x", "/private", "/moved", "/linked"), page())
    site.pages |= {f"/{kind}-there": page() for kind in ("replaced", "changed", "answered")}
    site.pages |= dict.fromkeys(("/replaced", "/changed", "/answered"), page())
    forbidding = text("User-agent: *\nDisallow: /private\n")
    site.pages |= {f"{NARROW}/robots.txt": forbidding, f"{FAR}/rules.txt": forbidding}
    opened = [
        *sources(site, NARROW, "/robots.txt", way),
        *sources(site, FAR, "/rules.txt", way),
    ]
    closed = sources(site, BLOCKED, "/robots.txt", way)
    modules = {"resolves": RESOLVES} | ({"swapping": SWAPPING} if way == "engine" else {})
    for name, code in modules.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": ",".join(modules)}
    with cluster.worker(ROBOTSTXT_OBEY="true", **env):
        shut = await cluster.feed(*closed, crawlid="closed", maxdepth=1)
        crawl = await cluster.feed(*opened, maxdepth=1)
        state = await cluster.end_of(crawl, timeout_s=120)
        await wait_until(lambda: any("blocked-0" in visit.host for visit in site.visits))
    for target in (NARROW, FAR):
        came = sorted(visit.at for visit in site.visits if visit.host == target)
        gaps = [later - earlier for earlier, later in itertools.pairwise(came)]
        assert len(came) >= 3
        assert min(gaps) >= WINDOW_S - STAMP_S, gaps
    asked = [(visit.host, visit.path) for visit in site.visits]
    assert not [each for each in asked if each[0].lower().startswith("blocked.")]
    assert not [each for each in asked if each[1] == "/private"]
    assert {host for host, path in asked if path == "/x"} == {
        f"{name}-{n}.crawltest.com" for name in ("shop", "far-crawltest") for n in range(3)
    }
    assert asked.count((FAR, "/rules.txt")) == asked.count((NARROW, "/robots.txt")) == 1
    failed = cluster.failures()
    assert {url for url, why in failed.items() if why == "robots"} == {
        url for url in opened if url.endswith("/private")
    }
    changed = {url: why for url, why in failed.items() if "changed" in url}
    assert set(changed.values()) <= {"invalid_request"}
    assert len(changed) == (3 if way == "engine" else 0)
    assert state.failed == len(failed) - (len(changed) == 3)
    assert (await cluster.state_of(shut)).pending >= len(closed) - 3
