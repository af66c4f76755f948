"""Spiders: the ones that come along, and one that a user brings."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from crawlstream_chaos.processes import LoggedCrawler
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.documented import write_example_project

pytest_plugins = ["support.crawler.fixtures"]

USERS_SPIDER = """
from crawling.spiders.redis_spider import RedisSpider

class ShopSpider(RedisSpider):
    name = "shop"

    def parse(self, response):
        yield self.result(response)
        for n in range(2):
            yield response.follow("/item", self.parse_item, meta={"n": n}, dont_filter=True)
        yield response.follow("/item", self.parse_item, meta={"n": 9}, method="POST", body="q=1")
        yield response.follow("/handed-over", meta={"spiderid": "link"})
        yield response.follow("/broken", self.parse_broken)

    async def parse_item(self, response):
        yield self.result(response, attrs={"n": response.meta["n"], "app": response.meta["appid"]})
        yield response.follow("/too-deep")

    def parse_broken(self, response):
        raise RuntimeError("a defect")
"""


TWO_SPIDERS = """
import os
from crawling import ClusterSpider, Outlinks

class Lists(ClusterSpider):
    name = "lists"
    def parse(self, response):
        yield self.result(response, attrs={"by": self.name})
        if response.url.endswith("/list1"):
            yield response.follow("/item1", meta={"spiderid": "items"})

class Items(ClusterSpider):
    name = "items"
    def parse(self, response):
        yield self.result(response, attrs={"by": self.name})
        if response.url.endswith("/item1"):
            yield response.follow("/list2", meta={"spiderid": "lists"})
            yield Outlinks([response.urljoin("/list3")], spiderid="lists")
            yield response.follow("/item2", meta=response.meta)
            yield response.follow("/item3", method="POST", body=bytes(range(256)))
"""


async def test_spiders_hand_pages_to_each_other_and_back(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """Each page is parsed by the spider that it was handed to, also by that of the crawl again."""
    (tmp_path / "two.py").write_text(TWO_SPIDERS)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "two"}
    names = [f"/list{n}" for n in (1, 2, 3)] + [f"/item{n}" for n in (1, 2, 3)]
    site.pages |= {name: page() for name in names}
    with cluster.worker("lists", **env), cluster.worker("items", **env):
        crawl = await cluster.feed(site.url("/list1"), spiderid="lists", maxdepth=5)
        await cluster.end_of(crawl, timeout_s=60)
    parsed = {
        result["url"].rpartition("/")[2]: result["attrs"]["by"] for result in cluster.results()
    }
    assert parsed == {
        "list1": "lists", "list2": "lists", "list3": "lists",
        "item1": "items", "item2": "items", "item3": "items",
    }  # fmt: skip
    (posted,) = (visit for visit in site.visits if visit.path == "/item3")
    headers = {name.lower(): value for name, value in posted.headers.items()}
    assert (posted.method, headers["content-length"]) == ("POST", "256")


async def test_a_users_spider_needs_nothing_but_parse(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """Named callbacks, meta, undeduplicated requests, hand-over, and its faults with reasons."""
    (tmp_path / "shop.py").write_text(USERS_SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    site.pages |= {
        "/": page(),
        "/item": page(),
        "/handed-over": page("/followed"),
        "/broken": page(),
    }
    users = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "shop"}
    with cluster.worker("shop", **users), cluster.worker("link"):
        crawl = await cluster.feed(site.url("/"), spiderid="shop", maxdepth=1)
        state = await cluster.end_of(crawl, timeout_s=90)
    results = cluster.results()
    items = [r["attrs"]["n"] for r in results if r["url"] == site.url("/item")]
    assert sorted(items) == [0, 1, 9]
    assert {r["attrs"]["app"] for r in results if r["url"] == site.url("/item")} == {"tests"}
    assert {r["spiderid"] for r in results} == {"shop"}
    assert counted(results)[site.url("/handed-over")] == 1
    assert [v.method for v in site.visits if v.path == "/item"].count("POST") == 1
    assert cluster.failures() == {site.url("/broken"): "spider_error"}
    assert state.filtered_by_reason == {"depth": 3}
    assert "/too-deep" not in site.paths()


CARELESS_SPIDER = """
import asyncio
import os

from scrapy.exceptions import CloseSpider

from crawling import ClusterSpider, Outlinks

class CarelessSpider(ClusterSpider):
    name = "careless"

    def parse(self, response):
        match response.url.rsplit("/", 1)[1]:
            case "none":
                yield None
                yield self.result(response)
            case "item":
                yield {"a": 1}
            case "handed-to-a-number":
                yield response.follow("/x", meta={"spiderid": 7})
            case "priority":
                yield self.result(response)
                yield response.follow("/y", priority=10**30)
            case "huge":
                yield response.follow("/x", meta={"a": "x" * 300_000})
            case "attrs":
                yield self.result(response, attrs=[1])
            case "links":
                yield self.result(response, links=["http://a.example/"])
            case "outlinks":
                yield Outlinks("http://a.example/")
            case "raises":
                raise ValueError("no price")
            case "closes":
                raise CloseSpider("enough")
            case "exits":
                raise SystemExit(3)
            case "ends-in-every-way":
                for way in ("returns", "awaits", "yields"):
                    for end in ("exits", "interrupts", "cancels"):
                        yield response.follow(f"/{way}-{end}", getattr(self, way))

    def returns(self, response):
        return self.end(response)

    async def awaits(self, response):
        await asyncio.sleep(0)
        self.end(response)

    async def yields(self, response):
        self.end(response)
        yield

    def end(self, response):
        ends = {"exits": SystemExit(3), "interrupts": KeyboardInterrupt(), "kills": None}
        if response.url.endswith("-kills"):
            os._exit(9)
        raise ends.get(response.url.rpartition("-")[2], asyncio.CancelledError())


class KilledSpider(CarelessSpider):
    name = "killed"

    def parse(self, response):
        return self.end(response) if response.url.endswith("-kills") else [self.result(response)]
"""

ENDS = {
    "exits": "spider_error: RuntimeError: the spider called exit(3)",
    "interrupts": "spider_error: RuntimeError: the spider raised KeyboardInterrupt",
    "cancels": "spider_error: RuntimeError: the spider raised CancelledError",
}


@both_ways
async def test_a_careless_spider_costs_its_own_page_only(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """Each page ends, the failed ones with reason and error, and the worker goes on."""
    (tmp_path / "careless.py").write_text(CARELESS_SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    said = {
        "item": "item_error: TypeError: dict is not a result",
        "handed-to-a-number": 'spider_error: TypeError: meta["spiderid"] of',
        "huge": "spider_error: ValueError: the request for",
        "attrs": "spider_error: TypeError: attrs of a result must be a dict",
        "links": "spider_error: TypeError: links of a result must be pairs",
        "outlinks": "spider_error: TypeError: Outlinks needs a list",
        "raises": "spider_error: ValueError: no price",
        "closes": "spider_error: TypeError: CloseSpider is not supported",
        "exits": "spider_error: RuntimeError: the spider called exit(3)",
    }
    names = [*said, "none", "priority", "ends-in-every-way"]
    ends = {f"{w}-{e}": told for w in ("returns", "awaits", "yields") for e, told in ENDS.items()}
    site.pages |= {f"/{name}": page() for name in (*names, *ends, "y")}
    users = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "careless"}
    with cluster.worker("careless", **users) as worker:
        crawls = [
            await cluster.feed(site.url(f"/{n}"), crawlid=n, spiderid="careless", maxdepth=1)
            for n in names
        ]
        for crawl in crawls:
            await cluster.end_of(crawl, timeout_s=90)
        assert worker.is_running()
    assert sorted(site.paths()) == sorted(f"/{name}" for name in (*names, *ends, "y"))
    said |= ends
    failed = [e for e in cluster.records(cluster.topics.events) if e["event"] == "page_failed"]
    told = {each["url"]: f"{each['reason']}: {each['detail']}" for each in failed}
    assert told.keys() == {site.url(f"/{name}") for name in said}
    for name, beginning in said.items():
        assert told[site.url(f"/{name}")].startswith(beginning)
    assert {r["url"] for r in cluster.results()} == {site.url("/none"), site.url("/priority")}


@both_ways
async def test_a_callback_that_kills_its_process_is_blamed_alone(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """A plain function that ends the process three times fails its page; the others are crawled."""
    (tmp_path / "careless.py").write_text(CARELESS_SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    users = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "careless"}
    site.pages |= {"/page-kills": page(), "/a": page(), "/b": page()}
    seeds = [site.url(f"/{name}") for name in ("page-kills", "a", "b")]
    crawl = await cluster.feed(*seeds, spiderid="killed")
    for _ in range(3):
        with cluster.worker("killed", **users) as worker:
            await asyncio.to_thread(worker.wait, 60)
    with cluster.worker("killed", **users):
        await cluster.end_of(crawl, timeout_s=60)
    state = await cluster.state_of(crawl)
    assert (state.done, state.failed_by_reason) == (2, {"killed_worker": 1})


async def test_a_project_joins_by_one_line(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """The example of the documentation runs as written: its spider, its pipeline, a hand-over."""
    write_example_project(tmp_path)
    item = Answer(b"<b class=price>9.99</b>")
    front = b"<a class=product href=/1></a><a class=product href=/2></a><a class=about href=/about>"
    site.pages |= {"/": Answer(front), "/1": item, "/2": item, "/about": page("/team")}
    site.pages["/team"] = page()
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    products = LoggedCrawler(
        "products", {**cluster.env, "PYTHONPATH": path}, tmp_path / "products.log", scrapy=True
    )
    with products.running(), cluster.worker("link"):
        crawl = await cluster.feed(site.url("/"), spiderid="products", maxdepth=2)
        state = await cluster.end_of(crawl, timeout_s=90)
        products.signal(signal.SIGTERM)
        assert products.wait() == 0
    assert (state.done, state.failed) == (5, 0)
    results = {record["url"]: record for record in cluster.results()}
    assert set(results) == set(map(site.url, ("/", "/1", "/2", "/about", "/team")))
    attrs = {"price": "9.99", "list": site.url("/")}
    assert results[site.url("/1")]["attrs"] == results[site.url("/2")]["attrs"] == attrs
    prices = (tmp_path / "prices.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["url"] for line in prices) == [site.url("/1"), site.url("/2")]


ORDINARY_SPIDERS = """
from scrapy import Spider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from crawling import ClusterSpider

class Plain(Spider):
    name = "plain"
    start_urls = ["http://127.0.0.1:1/"]

class Ruled(ClusterSpider, CrawlSpider):
    name = "ruled"
    rules = [Rule(LinkExtractor(allow="/item"), callback="parse_item", follow=True)]

    def parse_item(self, response):
        self.logger.info("seen %s", response.url)
        yield self.result(response)
"""


def ordinary_project(cluster: CrawlerCluster, folder: Path, spider: str) -> LoggedCrawler:
    """A crawler of a Scrapy project that joins with the spiders it has."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = own_settings\n")
    settings = 'SPIDER_MODULES = ["own_spiders"]\nADDONS = {"crawling.addon.ClusterAddon": 0}\n'
    settings += "DOWNLOAD_DELAY = 0.5\n"
    (folder / "own_settings.py").write_text(settings)
    (folder / "own_spiders.py").write_text(ORDINARY_SPIDERS)
    path = os.pathsep.join(filter(None, (str(folder), cluster.env.get("PYTHONPATH"))))
    env = {**cluster.env, "PYTHONPATH": path}
    return LoggedCrawler(spider, env, folder / "log.jsonl", scrapy=True)


def test_a_spider_that_would_crawl_by_itself_is_refused(
    cluster: CrawlerCluster, tmp_path: Path
) -> None:
    """Refuses such a spider with a sentence that says what to derive it from, and a status."""
    crawler = ordinary_project(cluster, tmp_path, "plain")
    with crawler.running():
        assert crawler.wait() == 1
    (refusal,) = [e for e in crawler.events() if e.get("level") == "critical"]
    assert refusal["error"].startswith("Plain is not a cluster spider: derive it from")


async def test_a_crawl_spider_joins_with_its_rules(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """ClusterSpider before CrawlSpider; what it logs is in the log, what Scrapy does is not."""
    site.pages |= {"/": page("/item/1", "/other"), "/item/1": page("/item/2"), "/item/2": page()}
    crawler = ordinary_project(cluster, tmp_path, "ruled")
    with crawler.running():
        crawl = await cluster.feed(site.url("/"), spiderid="ruled", maxdepth=3)
        await cluster.end_of(crawl, timeout_s=90)
        crawler.signal(signal.SIGTERM)
        assert crawler.wait() == 0
    items = [site.url("/item/1"), site.url("/item/2")]
    assert sorted(record["url"] for record in cluster.results()) == items
    said = [event["event"] for event in crawler.events() if event.get("logger") == "ruled"]
    assert said == [f"seen {url}" for url in items]
    (warned,) = [e for e in crawler.events() if e.get("outcome") == "delay_ignored"]
    assert warned["remedy"] == "crawlstream throttle set DOMAIN --hits 2 --window 1"
    assert "Scraped from" not in (tmp_path / "log.jsonl").read_text()


async def test_the_wandering_spider_walks_until_it_meets_a_page_again(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Each page has one link, whatever maxdepth says, and the steps are counted."""
    site.pages |= {f"/{n}": page(f"/{(n + 1) % 6}") for n in range(6)}
    with cluster.worker("wandering"):
        crawl = await cluster.feed(site.url("/0"), spiderid="wandering", attrs={"mine": 1})
        await cluster.end_of(crawl, timeout_s=90)
    attrs = {r["url"]: r["attrs"] for r in cluster.results()}
    assert attrs == {site.url(f"/{n}"): {"mine": 1, "step": n} for n in range(6)}


async def test_what_identifies_the_requester_stays_with_its_crawl_and_site(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """User agent: the whole crawl. Cookies and headers: the seed's domain. Others: neither."""
    abroad = site.url("/x", host="127.0.0.2")
    site.pages |= {"/": page("/a", abroad), "/a": page(), "/x": page(), "/other": page()}
    with cluster.worker():
        mine = await cluster.feed(
            site.url("/"),
            maxdepth=1,
            useragent="mine/1.0",
            cookie="a=1; b=2",
            cookies={"c": "3"},
            headers={"X-Key": "k\r\nEvil: 1", "Host": "evil", "bad name": "x"},
        )
        other = await cluster.feed(site.url("/other"), crawlid="other")
        for crawl in (mine, other):
            await cluster.end_of(crawl, timeout_s=90)
    told = {visit.path: visit.headers for visit in site.visits}
    assert told["/a"]["cookie"] == "a=1; b=2; c=3"
    assert told["/a"]["user-agent"] == told["/x"]["user-agent"] == "mine/1.0"
    assert told["/a"]["x-key"] == "kEvil: 1"
    assert told["/"]["host"] == f"127.0.0.1:{site.port}"
    assert "evil" not in told["/a"]
    for path in ("/x", "/other"):
        assert "cookie" not in told[path]
        assert "x-key" not in told[path]
    assert told["/other"]["user-agent"].startswith("crawlstream/")
    assert told["/a"]["referer"] == site.url("/")
    assert told["/a"]["accept"].startswith("text/html")
    assert told["/a"]["accept-language"] == "en"


async def test_a_page_says_what_its_links_are_told_of_it(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """A Referrer-Policy header is honoured, and the record knows the parent all the same."""
    headers = {"Content-Type": "text/html", "Referrer-Policy": "no-referrer"}
    site.pages |= {"/": Answer(page("/a").body, headers=headers), "/a": page()}
    with cluster.worker():
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        await cluster.end_of(crawl, timeout_s=90)
    assert "referer" not in site.visits[-1].headers
    assert cluster.results()[-1]["parent_url"] == site.url("/")


HANGING_SPIDER = """
import asyncio

from crawling import ClusterSpider
from crawling.publish import completion, deadlines

deadlines.LONGEST_S, completion._PAUSE_MS = 3.0, 100

class Pipeline:
    async def process_item(self, item):
        if item.url.endswith("/pipeline"):
            await asyncio.Event().wait()
        return item

class Middleware:
    async def process_response(self, request, response):
        if request.url.endswith("/middleware"):
            await asyncio.Event().wait()
        return response

class HangingSpider(ClusterSpider):
    name = "hanging"
    custom_settings = {
        "ITEM_PIPELINES": {Pipeline: 100},
        "DOWNLOADER_MIDDLEWARES": {Middleware: 100},
    }

    async def parse(self, response):
        yield self.result(response)
        if response.url.endswith("/callback"):
            await asyncio.Event().wait()
        if response.url.endswith("/leads-on"):
            yield response.follow("/coroutine", self.parse_coroutine)

    async def parse_coroutine(self, response):
        await asyncio.Event().wait()
"""


async def test_code_of_the_user_that_waits_for_ever_fails_its_page(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """A callback of either kind, a pipeline, a middleware: retried, then failed with a reason.

    All else goes on, and the worker ends in good order.
    """
    (tmp_path / "hanging.py").write_text(HANGING_SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    hangs = ["/callback", "/coroutine", "/pipeline", "/middleware"]
    site.pages |= {place: page() for place in (*hangs, "/leads-on", "/good")}
    users = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "hanging", "RETRY_TIMES": "1"}
    fed = [site.url(place) for place in (*hangs, "/leads-on", "/good") if place != "/coroutine"]
    with cluster.worker("hanging", **users) as worker:
        crawl = await cluster.feed(*fed, spiderid="hanging", maxdepth=1)
        state = await cluster.end_of(crawl, timeout_s=90)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert (state.done, state.failed_by_reason) == (2, {"callback_timeout": 4})
    assert cluster.failures() == {site.url(place): "callback_timeout" for place in hangs}
    assert [site.paths().count(place) for place in hangs] == [2] * 4
