"""``POST /v2/scrape`` on a whole cluster: one URL now, as Markdown."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawlstream.bus.connect import Kafka
from crawlstream.bus.topics import forget_records
from crawlstream_chaos.scripted_site import Answer, Page, SeenRequest
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.web.scrapes import another, rest_fixture, scrape, site_of
from support.rest import RestProcess
from support.waiting import WaitUntil

__all__ = ["rest_fixture"]

ARTICLE = (
    b"<html lang=en><head><title>Tides</title></head><body><nav><a href=/menu>Menu</a></nav>"
    b"<main><h1>Tides</h1><p>The sea <b>rises</b> twice a day, and falls again.</p>"
    b"<p>See the <a href='/moon'>moon</a>.</p></main></body></html>"
)
HOSTILE = b"<p " + b" ".join(b"a%d=1" % n for n in range(40_000)) + b">x" + b"<div>" * 50_000


async def test_a_page_comes_as_markdown_in_one_call(rest: RestProcess, witness: Witness) -> None:
    """Returns title, links and the wanted formats in one call; the page is a result once."""
    with site_of({"/tides": Answer(ARTICLE)}) as (site, host):
        url = site.url("/tides", host)
        answer = await scrape(rest, url, formats=["markdown", "links", "metadata", "text", "raw"])
        assert answer.status == 200, answer.body
        data = answer.data
        assert (data["state"], data["source"], data["untrusted"]) == ("done", "fetched", True)
        assert "# Tides" in data["markdown"]
        assert "**rises**" in data["markdown"]
        assert "Menu" not in data["markdown"]
        assert {link["url"] for link in data["links"]} >= {site.url("/moon", host)}
        page = data["page"]
        assert (page["status_code"], page["title"], page["lang"]) == (200, "Tides", "en")
        assert page["url"] == page["response_url"] == url
        assert data["raw"] == {"body": ARTICLE.decode(), "body_encoding": "text"}
        assert data["problems"] == []
        assert set(data["timings_ms"]) == {"door", "site", "read", "extract", "total"}
        (record,) = witness.records("crawled_firehose", url=url)
        assert record.value["id"] == page["id"]
        again = await rest.get(f"/v2/scrape/{data['id']}?formats=html")
        assert set(again.data) >= {"html", "page"}
        assert site.paths() == ["/tides"]


async def test_every_answer_of_a_site_is_a_page(rest: RestProcess) -> None:
    """A 404 is an answer; plain text has Markdown; a picture has a problem."""
    pages = {
        "/plain": Answer(b"just text", headers={"Content-Type": "text/plain"}),
        "/picture": Answer(b"\x89PNG\r\n\x1a\n\0\0", headers={"Content-Type": "image/png"}),
        "/empty": Answer(),
    }
    with site_of(pages) as (site, host):
        missing = (await scrape(rest, site.url("/nowhere", host))).data
        assert (missing["state"], missing["page"]["status_code"]) == ("done", 404)
        plain = (await scrape(rest, site.url("/plain", host))).data
        assert "just text" in plain["markdown"]
        picture = (await scrape(rest, site.url("/picture", host), formats=["text", "raw"])).data
        assert picture["text"] is None
        assert picture["problems"]
        assert picture["raw"]["body_encoding"] == "base64"
        empty = (await scrape(rest, site.url("/empty", host))).data
        assert (empty["state"], empty["markdown"]) == ("done", "")


async def test_a_failure_has_a_reason(rest: RestProcess) -> None:
    """The address is refused, robots.txt disallows it: no page comes, and the client knows why."""
    robots = Answer(b"User-agent: *\nDisallow: /", headers={"Content-Type": "text/plain"})
    with site_of({"/robots.txt": robots}) as (site, host):
        answer = await scrape(rest, site.url("/a", host))
        assert answer.status == 200, answer.body
        assert (answer.data["state"], answer.data["reason"]) == ("failed", "robots")
    refused = await scrape(rest, "http://10.1.2.3/")
    assert refused.status in {200, 422}
    if refused.status == 200:
        assert refused.data["state"] == "failed"
    assert (await scrape(rest, "file:///etc/passwd")).status == 422


async def test_a_slow_site_is_answered_later_by_any_process(
    cluster: Cluster, rest: RestProcess, tmp_path: Path
) -> None:
    """202 with an id; another process, and one that was started after the reply, have the page."""
    with site_of({"/slow": Answer(ARTICLE, after_s=3)}) as (site, host):
        begun = await scrape(rest, site.url("/slow", host), wait=0)
        assert begun.status == 202
        assert begun.headers["location"] == f"/v2/scrape/{begun.data['id']}"
        assert int(begun.headers["retry-after"]) >= 1
        path = begun.headers["location"]
        async with another(cluster, tmp_path) as other:
            found = await other.get(f"{path}?wait=60")
            assert found.status == 200, found.body
            assert "# Tides" in found.data["markdown"]
        rest.process.kill()
        async with another(cluster, tmp_path) as fresh:
            assert "# Tides" in (await fresh.get(path)).data["markdown"]
            assert (await fresh.get("/v2/scrape/none")).error["code"] == "no_such_scrape"
        assert site.paths() == ["/slow"]


async def test_a_scrape_may_be_given_up(rest: RestProcess) -> None:
    """Its answer is dropped, also when it comes later."""
    with site_of({"/a": Answer(ARTICLE, after_s=1)}) as (site, host):
        path = (await scrape(rest, site.url("/a", host), wait=0)).headers["location"]
        assert (await rest.call("DELETE", path)).data["state"] == "dropped"
        assert (await rest.get(f"{path}?wait=5")).status == 404


async def test_equal_scrapes_share_one_page(rest: RestProcess) -> None:
    """Equal scrapes in progress at one process do; scrapes with cookies do not."""
    with site_of({"/a": Answer(ARTICLE, after_s=1)}) as (site, host):
        url = site.url("/a", host)
        answers = await asyncio.gather(*(scrape(rest, url) for _ in range(5)))
        assert len({answer.data["id"] for answer in answers}) == 1
        private = await asyncio.gather(*(scrape(rest, url, cookie="a=1") for _ in range(2)))
        assert len({answer.data["id"] for answer in private}) == 2
        assert len(site.paths()) == 3


async def test_large_and_hostile_pages_cost_their_bounds(rest: RestProcess) -> None:
    """A body of 10 MB is cut; markup made to be expensive is answered, and the process goes on."""
    large = b"<html><body>" + b"<p>%s</p>" % (b"word " * 200) * 10_000
    pages: Mapping[str, Page] = {"/large": Answer(large), "/hostile": Answer(HOSTILE)}
    with site_of({**pages, "/a": Answer(ARTICLE)}) as (site, host):
        data = (await scrape(rest, site.url("/large", host), max_chars=5_000)).data
        assert data["truncated"] is True
        assert data["page"]["body_size"] == len(large)
        assert len(data["markdown"] or "") <= 5_000
        hostile = (await scrape(rest, site.url("/hostile", host))).data
        assert hostile["state"] == "done"
        assert (await scrape(rest, site.url("/a", host))).data["problems"] == []


async def test_a_page_that_kafka_has_deleted_is_told_without_its_formats(
    cluster: Cluster, rest: RestProcess
) -> None:
    """The reply still has what it says of the page."""
    with site_of({"/a": Answer(ARTICLE)}) as (site, host):
        data = (await scrape(rest, site.url("/a", host))).data
        page = data["page"]
        topic = f"{cluster.prefix}.crawled_firehose"
        before = {page["partition"]: page["offset"] + 1}
        await forget_records(Kafka([cluster.hosts]), topic, before)
        gone = (await rest.get(f"/v2/scrape/{data['id']}")).data
        assert gone["problems"] == ["gone_from_kafka"]
        assert gone["page"]["digest"] == page["digest"]
        assert "markdown" not in gone


async def test_a_busy_site_refuses_and_keeps_its_rule(
    cluster: Cluster, rest: RestProcess, witness: Witness, wait_until: WaitUntil
) -> None:
    """Fifty callers, while a crawl runs: no second has more requests, and the crawl goes on.

    Each page that is answered is on the topic of results, once.
    """
    pages = {f"/{kind}{n}": Answer(ARTICLE) for n in range(120) for kind in "cs"}
    with site_of(pages) as (site, host):
        await cluster.throttle("set", host, "--hits", "10", "--window", "1")
        seeds = [
            {"url": site.url(f"/c{n}", host), "appid": "crawls", "crawlid": "beside"}
            for n in range(120)
        ]
        assert (await rest.post("/v2/crawls", seeds)).status == 202

        async def is_crawled() -> bool:
            return len(site.paths()) >= 5

        assert await wait_until(is_crawled, timeout_s=30)
        begun = time.time()
        answers = await asyncio.gather(
            *(scrape(rest, site.url(f"/s{n}", host), wait=2) for n in range(50))
        )
        statuses = Counter(answer.status for answer in answers)
        assert set(statuses) <= {200, 202, 429}
        assert statuses[429] >= 20
        refused = [answer for answer in answers if answer.status == 429]
        codes = {answer.error["code"] for answer in refused}
        assert codes <= {"site_busy", "too_many_scrapes"}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        visits = [one for one in site.visits if one.path != "/robots.txt"]
        assert_rule(visits, hits=10)
        during = [one.path for one in visits if begun <= one.at <= begun + 4]
        assert any(path.startswith("/c") for path in during), during
        # Half of the rule, and what the door lets in at once.
        scraped = [path for path in during if path.startswith("/s")]
        assert len(scraped) <= 0.5 * 10 * (4 + 1), during
        assert max(Counter(site.paths()).values()) == 1
        answered = {answer.data["page"]["id"] for answer in answers if answer.status == 200}

        def results() -> Counter[str | None]:
            seen = witness.records("crawled_firehose")
            return Counter(record.key for record in seen if record.key in answered)

        assert await wait_until(lambda: results().keys() == answered)
        assert set(results().values()) <= {1}


def assert_rule(visits: list[SeenRequest], hits: int) -> None:
    """Check that no second has more requests than the rule allows."""
    times = sorted(visit.at for visit in visits)
    for first, last in zip(times, times[hits:], strict=False):
        assert last - first >= 0.999


async def test_no_crawler_and_a_blocked_site_are_conflicts(
    cluster: Cluster, rest: RestProcess
) -> None:
    """Refuses with 409, and feeds no seed that would wait until an operator acts."""
    renders = await scrape(rest, "http://127.77.250.1/", render=True)
    assert (renders.status, renders.error["code"]) == (409, "no_renderer")
    await cluster.throttle("block", "127.77.251.1")
    blocked = await scrape(rest, "http://127.77.251.1/")
    assert (blocked.status, blocked.error["code"]) == (409, "site_blocked")


async def test_scrapes_are_hidden_among_crawls(rest: RestProcess, wait_until: WaitUntil) -> None:
    """Hides crawls of scrapes in lists, unless asked for; one per process, minute and appid."""
    with site_of({"/a": Answer(ARTICLE)}) as (site, host):
        await scrape(rest, site.url("/a", host), appid="hidden")

        async def listed() -> bool:
            found = (await rest.get("/v2/crawls?appid=hidden&kind=scrape")).data
            return bool(found["total"] == 1)

        assert await wait_until(listed, timeout_s=20)
        assert (await rest.get("/v2/crawls?appid=hidden")).data["total"] == 0


async def test_the_command_of_the_guide_works(rest: RestProcess) -> None:
    """The first line with curl in docs/scrape.md, for another page and port."""
    guide = (Path(__file__).parents[3] / "docs" / "scrape.md").read_text()
    line, *_ = (
        block for block in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) if "curl" in block
    )
    with site_of({"/": Answer(ARTICLE)}) as (site, host):
        line = line.replace("https://shop.example.com/", site.url("/", host))
        command = shlex.split(line.replace("localhost:5343", f"127.0.0.1:{rest.port}"))
        curl = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await asyncio.wait_for(curl.communicate(), 60)
    assert "# Tides" in json.loads(printed)["data"]["markdown"]


async def test_what_is_wrong_with_a_scrape_is_said(rest: RestProcess) -> None:
    """Statuses and codes as documented."""
    url = "http://127.0.0.1/"
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"url": url, "formats": ["json"]}, 422, "format_not_available"),
        ({"url": url, "formats": ["screenshot"]}, 409, "no_renderer"),
        ({"url": url, "render": {"screenshot": "all"}}, 422, "bad_request"),
        ({"url": url, "render": {"actions": [{"click": 1}]}}, 422, "bad_request"),
        ({"url": url, "max_age": -1}, 422, "invalid"),
        ({"url": url, "depth": 5}, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"url": url, "headers": {"Host": "x"}}, 422, "bad_header"),
    ]
    for asked, status, code in cases:
        answer = await rest.post("/v2/scrape", asked)
        assert (answer.status, answer.error.get("code")) == (status, code), asked
    assert json.loads((await rest.get("/v2/openapi.json")).body)["paths"]["/v2/scrape"]
