"""A URL's story between real servers, and the search box that leads there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from kafka import KafkaProducer

from support.monitors import MonitorCluster
from support.rest import Answer, RestProcess, rest_beside_monitors
from support.waiting import WaitUntil

APP, OTHER = "story-app", "story-other"
SECRETS = {"all": "a" * 20, "bound": "b" * 20}
KEYS = f"operate:{SECRETS['all']},read@{APP}:{SECRETS['bound']}"
HTML = {"Accept": "text/html"}
PAGE = "http://127.0.0.1/deep?a=1&b=2"


class Asked:
    """A service, asked with a key."""

    def __init__(self, rest: RestProcess) -> None:
        self.rest = rest

    async def get(self, path: str, key: str = "all", **headers: str) -> Answer:
        """Read."""
        return await self.rest.get(path, X_API_Key=SECRETS[key], **headers)

    async def story(self, url: str = PAGE, key: str = "all", more: str = "") -> Any:
        """All that is known of a URL."""
        return (await self.get(f"/v2/frontier?url={quote(url, safe='')}{more}", key)).data

    async def led(self, text: str, key: str = "all") -> str:
        """Where the search box leads; empty: nowhere."""
        answer = await self.get(f"/ui/search?q={quote(text, safe='')}", key, **HTML)
        assert answer.status in {200, 303}
        return answer.headers.get("location", "")


@pytest.fixture(scope="module")
def asked(cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A service next to both monitors, without crawlers: seeds stay queued."""
    folder = tmp_path_factory.mktemp("story")
    with rest_beside_monitors(cluster, folder, wait_s=20, CRAWLSTREAM_API_KEYS=KEYS) as rest:
        yield Asked(rest)


def _publish(
    cluster: MonitorCluster,
    topic: str,
    *records: dict[str, Any],
    partition: int = 0,
    at_ms: int | None = None,
) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    for record in records:
        told = json.dumps(record).encode()
        producer.send(topic, told, partition=partition, timestamp_ms=at_ms)
    producer.flush(60)
    producer.close()


def _of(appid: str, **more: object) -> dict[str, Any]:
    return {"appid": appid, "crawlid": "told", "spiderid": "link", "run": 1, **more}


@pytest.fixture(scope="module")
def past(asked: Asked, cluster: MonitorCluster) -> str:
    """A page that waits in two applications, with results, a failure and parents; its URL."""
    seeds = [
        {"appid": appid, "crawlid": "told", "url": url}
        for appid, url in ((APP, "http://127.0.0.1/first"), (APP, PAGE), (OTHER, PAGE))
    ]
    sent = asked.rest._call("POST", "/v2/crawls", seeds, {"X-API-Key": SECRETS["all"]})
    assert sent.status == 202
    top, middle = "http://127.0.0.1/#top", "http://127.0.0.1/middle"
    results = [
        _of(APP, url=top, status_code=200, body="x"),
        _of(APP, url=middle, parent_url=top, status_code=200, links=[{"url": PAGE}]),
        _of(APP, url="http://127.0.0.1/deep?b=2&a=1#x", parent_url=middle, status_code=404),
        _of(OTHER, url=PAGE, status_code=503),
        _of(APP, url="http://127.0.0.1/new", redirect_urls=[PAGE], status_code=200),
        _of(APP, url="http://127.0.0.2/deep?a=1&b=2", status_code=200),
    ]
    failed = _of(APP, event="page_failed", url=PAGE, reason="timeout", attempts=4, parent=middle)
    _publish(cluster, cluster.topics.crawled, *results)
    _publish(cluster, cluster.topics.events, failed)
    return PAGE


@pytest.fixture
async def told(asked: Asked, past: str, wait_until: WaitUntil) -> Asked:
    """The service, when it knows of both crawls."""

    async def both_wait() -> bool:
        return len((await asked.story(past))["crawls"]) == 2

    await wait_until(both_wait)
    return asked


async def test_a_url_is_told_from_its_seed_to_its_end(told: Asked) -> None:
    """Its place, each result and failure with its parents, and the time of its next request."""
    story = await told.story("127.0.0.1/deep?b=2&a=1")
    assert (story["url"], story["is_whole"]) == (PAGE, True)
    own = next(one for one in story["crawls"] if one["crawl"]["appid"] == APP)
    (waiting,) = own["sightings"]
    assert (own["where"], own["summary"], waiting["place"]) == ("queued", "queued", 2)
    assert (waiting["attempt"], waiting["ahead"]) == (1, 1)
    assert waiting["summary"].startswith("position 2 in its queue, 1 pages")
    redirected, foreign, gone = story["results"]
    assert [one["status_code"] for one in (redirected, foreign, gone)] == [200, 503, 404]
    assert gone["chain"] == ["http://127.0.0.1/middle", "http://127.0.0.1/#top"]
    assert (foreign["appid"], foreign["chain"]) == (OTHER, [])
    (failure,) = story["failures"]
    assert (failure["reason"], failure["attempts"]) == ("timeout", 4)
    assert failure["chain"] == gone["chain"]
    assert story["domain"]["domain"] == "127.0.0.1"
    assert "next request in" in story["limits"]


async def test_one_crawl_is_asked_about_a_url(told: Asked) -> None:
    """A known crawl's report shows that it never admitted a page; an unknown one is an error."""
    named = f"&appid={APP}&crawlid=told"
    assert {one["appid"] for one in (await told.story(more=named))["results"]} == {APP}
    (never,) = (await told.story("http://127.0.0.1/never", more=named))["crawls"]
    assert (never["where"], never["summary"][:14]) == ("never", "never admitted")
    unheard = await told.get(f"/v2/frontier?url={quote(PAGE)}&appid={APP}&crawlid=unheard")
    assert (unheard.status, unheard.error["code"]) == (404, "unknown_crawl")
    wrong = await told.get("/v2/frontier?url=ftp://x")
    assert (wrong.status, wrong.error["code"]) == (422, "invalid_url")


async def test_a_key_of_an_application_hears_of_its_own_only(told: Asked) -> None:
    """Crawls, results and the domain that all share: nothing of others is shown."""
    story = await told.story(key="bound")
    assert {one["crawl"]["appid"] for one in story["crawls"]} == {APP}
    assert {one["appid"] for one in story["results"]} == {APP}
    assert (story["domain"], story["limits"]) == (None, "")
    refused = await told.get(f"/v2/frontier?url={quote(PAGE)}&appid={OTHER}", "bound")
    assert (refused.status, refused.error["code"]) == (403, "forbidden_appid")


async def test_records_are_chosen_by_url(told: Asked) -> None:
    """Results, events and files take ``url=``, in any spelling."""
    url = quote("127.0.0.1/deep?b=2&a=1", safe="")
    records = (await told.get(f"/v2/results?url={url}")).data["records"]
    assert [one["value"]["status_code"] for one in records] == [404, 503, 200]
    (failure,) = (await told.get(f"/v2/events?url={url}&event=page_failed")).data["records"]
    assert failure["value"]["reason"] == "timeout"
    lines = (await told.get(f"/v2/results/export?url={url}")).body.splitlines()
    assert len(lines) == 3


async def test_results_of_a_crawl_begin_at_its_latest_run(
    told: Asked, cluster: MonitorCluster
) -> None:
    """Earlier records are not read, neither for pages nor files; `cursor=0:0` reads them."""
    topic, hour_ms = cluster.topics.crawled, 3_600_000
    old, new = (_of(APP, spiderid="sitemap", url=f"http://a/{age}") for age in ("old", "new"))
    _publish(cluster, topic, old, partition=1, at_ms=int(time.time() * 1000) - hour_ms)
    _publish(cluster, topic, new, partition=1)
    path, crawl = "/v2/results", f"appid={APP}&crawlid=told"

    async def found(query: str) -> set[str]:
        records = (await told.get(f"{path}?{query}")).data["records"]
        return {one["value"]["url"] for one in records if one["partition"] == 1}

    assert await found(crawl) == {new["url"]}
    assert await found(f"{crawl}&cursor=0:0") == {old["url"], new["url"]}
    # This crawl is not known, so its records may be anywhere.
    assert await found(f"{crawl}&spiderid=sitemap") == {old["url"], new["url"]}
    lines = (await told.get(f"{path}/export?{crawl}")).body.splitlines()
    assert old["url"] not in {json.loads(line)["url"] for line in lines}


@pytest.mark.parametrize(
    "path",
    [
        "results",
        "results/export",
        "events/stream",
        "crawls",
        "state",
        "throttle",
        "domains",
        "crawl",
    ],
)
async def test_an_unknown_parameter_is_refused_by_name(asked: Asked, path: str) -> None:
    """A filter that does not exist is not answered with everything."""
    answer = await asked.get(f"/v2/{path}?urll=x&limmit=1")
    assert (answer.status, answer.error["code"]) == (400, "unknown_parameter")
    assert answer.error["message"] == "Unknown query parameters: limmit, urll."


async def test_the_search_box_leads_to_what_is_meant(told: Asked, wait_until: WaitUntil) -> None:
    """An id to its crawl, a URL to its story, a domain to its rule; else it says what to try."""
    one = {"appid": "story-one", "crawlid": "only.one", "url": "http://127.0.0.1/x"}
    await told.rest.post("/v2/crawls", one, X_API_Key=SECRETS["all"])

    async def is_found() -> bool:
        return (await told.led("only.one")).startswith("/ui/crawl?appid=story-one")

    await wait_until(is_found)
    assert (await told.led("told", "bound")).startswith(f"/ui/crawl?appid={APP}")
    story = "/ui/url?url=http%3A%2F%2F127.0.0.1%2Fdeep"
    assert (await told.led(" 127.0.0.1/deep?b=2&a=1 ")).startswith(story)
    assert await told.led("127.0.0.1") == "/ui/domains?name=127.0.0.1"
    assert await told.led("127.0.0.1", "bound") == ""
    for text, said in {
        "told": "Several crawls have the id",
        "only": "only.one",
        "nothing.test": "No crawl, domain or URL is called",
        "ftp://x/y": "This URL cannot be crawled",
        "": "What to try",
        "<b>": "&lt;b&gt;",
    }.items():
        page = await told.get(f"/ui/search?q={quote(text)}", **HTML)
        assert (page.status, said in page.body.decode()) == (200, True), text


async def test_a_browser_reads_the_story(told: Asked) -> None:
    """The screen has what the API has, and every screen the box that leads there."""
    page = (await told.get(f"/ui/url?url={quote(PAGE, safe='')}", **HTML)).body.decode()
    for text in ("position 2 in its queue", "timeout", "503", "found on", "/ui/page?partition="):
        assert text in page, text
    never = await told.get("/ui/url?url=http://127.0.0.1/never", **HTML)
    assert "No known crawl has admitted this URL" in never.body.decode()
    wrong = await told.get("/ui/url?url=ftp://x", **HTML)
    assert (wrong.status, b"cannot be crawled" in wrong.body) == (422, True)
    for path in ("/", "/ui/crawls", "/ui/domains", "/ui/rejected", "/ui/processes", "/ui/submit"):
        assert b'action="/ui/search"' in (await told.get(path, **HTML)).body
