"""A whole crawler process, between a real frontier and a real Kafka, on a small web."""

from __future__ import annotations

import itertools
import signal
from typing import Any

import pytest

from crawlstream.boot.failpoints import STEPS
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, page
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]


def once(first: Answer, then: Answer) -> Any:
    """A page that answers differently the first time."""
    visits = itertools.count()
    return lambda _visit: first if next(visits) == 0 else then


def mixed_web(site: CrawlerSite) -> set[str]:
    """A web with everything that a page can be; answers the paths that become results."""
    site.pages |= {
        "/": page("/a", "/gone", "/moved", "/flaky", "/binary", "/latin1", "/slow", "/broken"),
        "/a": page("/", "/b", f"http://127.0.0.2:{site.port}/elsewhere"),
        "/b": page("/c"),
        "/c": page("/too-deep"),
        "/moved": Answer(status=302, headers={"Location": "/target"}),
        "/target": page("/a"),
        "/flaky": once(Answer(status=500), page("/b")),
        "/binary": Answer(bytes(range(256)), headers={"Content-Type": "image/png"}),
        "/latin1": Answer("<p>Grüße".encode("latin-1"), headers={"Content-Type": "text/html"}),
        "/slow": Answer(b"<p>slow", after_s=0.3),
        "/broken": Answer(b"<html><a href='/b'<<p></b><div <a href=/c>"),
        "/elsewhere": page("/"),
    }
    return {
        "/", "/a", "/b", "/c", "/gone", "/target", "/flaky", "/binary", "/latin1", "/slow",
        "/broken",
    }  # fmt: skip


async def test_every_page_is_delivered_once_and_nothing_is_held(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The topic of results, the ledger and the site's log agree."""
    expected = {site.url(path) for path in mixed_web(site)}
    expected.add(site.url("/elsewhere", host="127.0.0.2"))
    with cluster.worker():
        crawl = await cluster.feed(site.url("/"), maxdepth=3)
        state = await cluster.end_of(crawl, timeout_s=90)
    results = cluster.results()
    assert set(counted(results)) >= expected
    assert max(counted(results).values()) == 1
    assert state.done == len(results)
    assert (state.failed, state.redirected, state.held) == (0, 1, 0)
    assert site.paths().count("/flaky") == 2


async def test_results_carry_the_page_as_it_was(cluster: CrawlerCluster, site: CrawlerSite) -> None:
    """Text is text, binary is base64, and each record knows its place in the crawl."""
    mixed_web(site)
    with cluster.worker():
        crawl = await cluster.feed(site.url("/"), maxdepth=3, attrs={"k": 1})
        await cluster.end_of(crawl, timeout_s=90)
    prefix = site.url("")
    by_path = {r["url"].removeprefix(prefix): r for r in cluster.results()}
    assert by_path["/latin1"]["body"] == "<p>Grüße"
    assert by_path["/latin1"]["encoding"] == "cp1252"
    assert by_path["/binary"]["body_encoding"] == "base64"
    assert by_path["/gone"]["status_code"] == 404
    assert by_path["/flaky"]["attempt"] == 2
    assert by_path["/target"]["redirect_urls"] == [site.url("/moved")]
    assert by_path["/target"]["parent_url"] == site.url("/")
    assert by_path["/b"]["seed_url"] == site.url("/")
    assert by_path["/b"]["depth"] == 2
    assert by_path["/a"]["request_headers"]["Referer"] == [site.url("/")]
    assert by_path["/"]["attrs"] == {"k": 1}
    assert by_path["/"]["links"][0] == {"url": site.url("/a"), "text": "/a"}
    assert by_path["/slow"]["latency_ms"] >= 300
    assert by_path["/slow"]["ip"] == "127.0.0.1"


async def test_results_go_to_an_applications_own_topic_too(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Creates an application's topic on first use with KAFKA_APPID_TOPICS, with all its results."""
    mixed_web(site)
    with cluster.worker(KAFKA_APPID_TOPICS="true", CRAWLSTREAM_INCOMING_PARTITIONS="1"):
        crawl = await cluster.feed(site.url("/"), maxdepth=3)
        state = await cluster.end_of(crawl, timeout_s=90)
    topic = cluster.topics.for_app(cluster.topics.crawled, crawl.appid)
    assert topic is not None
    own = {result["id"]: result for result in cluster.records(topic)}
    assert len(own) == state.done
    assert own == {result["id"]: result for result in cluster.results()}


@pytest.mark.parametrize("step", STEPS)
async def test_a_death_at_any_step_loses_nothing(
    cluster: CrawlerCluster, site: CrawlerSite, step: str
) -> None:
    """Killed between two effects, the worker's successor delivers every page under the same id."""
    expected = mixed_web(site)
    crawl = await cluster.feed(site.url("/"), maxdepth=3)
    with cluster.worker(FAILPOINT=f"{step}:kill:3") as doomed:
        assert doomed.wait() == -signal.SIGKILL
    with cluster.worker():
        state = await cluster.end_of(crawl, timeout_s=90)
    results = cluster.results()
    assert {site.url(path) for path in expected} <= set(counted(results))
    ids = {(record["url"], record["id"]) for record in results}
    assert len(ids) == len(counted(results)) == state.done
    assert state.failed == 0


@both_ways
async def test_term_finishes_what_is_under_way_and_gives_back_the_rest(
    cluster: CrawlerCluster, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """Drains on SIGTERM: afterwards nothing is held or lost, and no attempt was used."""
    links = [f"/{number}" for number in range(60)]
    site.pages |= {link: Answer(b"<p>", after_s=0.2) for link in links} | {"/": page(*links)}
    with cluster.worker(CONCURRENT_REQUESTS="8") as worker:
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        await wait_until(lambda: len(site.visits) > 10)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    state = await cluster.state_of(crawl)
    assert state.held == 0
    assert 0 < state.done < 61
    with cluster.worker():
        await cluster.end_of(crawl, timeout_s=90)
    assert set(counted(cluster.results()).values()) == {1}
    assert len(cluster.results()) == 61
    assert {record["attempt"] for record in cluster.results()} == {1}


async def test_a_worker_too_big_or_too_old_makes_room_for_another(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """It drains, says why and exits 0; the next process goes on, and nothing is lost."""
    seeds = [f"/{number}" for number in range(300)]
    site.pages |= {seed: Answer(b"<p>", after_s=0.2) for seed in seeds}
    crawl = await cluster.feed(*map(site.url, seeds))
    limits = {"age": {"CRAWLSTREAM_MAX_AGE": "1"}, "memory": {"CRAWLSTREAM_MEMORY_LIMIT_MB": "1"}}
    for reason, limit in limits.items():
        with cluster.worker(CONCURRENT_REQUESTS="2", **limit) as worker:
            assert worker.wait() == 0
            said = [
                event["reason"] for event in worker.events() if event.get("outcome") == "drains"
            ]
            assert said[-1] == reason
        state = await cluster.state_of(crawl)
        assert (state.held, state.residual) == (0, 0)
        assert state.done < 300
    with cluster.worker():
        await cluster.end_of(crawl, timeout_s=90)
    assert set(counted(cluster.results()).values()) == {1}
    assert len(cluster.results()) == 300
    assert {record["attempt"] for record in cluster.results()} == {1}


@both_ways
async def test_a_page_without_an_answer_fails_by_name(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Fails a page after its attempts with an event that has the reason."""
    site.pages |= {
        "/cut": Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        "/garbage": Answer(raw=b"\x00\x01\x02\x03 no http\r\n\r\n"),
        "/silent": Answer(after_s=9),
        "/zip": Answer(b"not gzip at all", headers={"Content-Encoding": "gzip"}),
        "/endless": Answer(bytes(200_000)),
    }
    reasons = {
        site.url("/cut"): "connection_lost",
        site.url("/garbage"): "bad_response",
        site.url("/silent"): "timeout",
        site.url("/zip"): "bad_encoding",
        site.url("/endless"): "too_large",
        "http://127.0.0.1:9/": "refused",
        "http://no-such-host.invalid/": "dns",
        "http://10.1.2.3/": "address_refused",
        "http://[::1]:8080/": "address_refused",
    }
    with cluster.worker(
        RETRY_TIMES="1", DOWNLOAD_TIMEOUT="1", CRAWLSTREAM_DOWNLOAD_MAX_BYTES="100000"
    ):
        crawl = await cluster.feed(*reasons)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert cluster.failures() == reasons
    assert state.failed == len(reasons)
    assert state.failed_by_reason["address_refused"] == 2
    assert site.paths().count("/cut") == 2
    assert site.paths().count("/endless") == 1


@both_ways
async def test_an_entry_without_a_valid_url_fails_by_name(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """It stops no worker, also where rules split domains; other pages are fetched."""
    texts = (
        "http://[/1", "http://127.0.0.1:x/", "http://127.0.0.1:99999/", "http:///", "nonsense",
        "http://exa mple/", "ftp://127.0.0.1/", "",
    )  # fmt: skip
    written = {site.url(f"/{number}"): text for number, text in enumerate(texts)}
    site.pages["/right"] = page()
    rule = ThrottleRule(hits=500, window_s=1)
    await cluster.set_rules(rule, {"www.example.com": rule})
    with cluster.worker():
        crawl = await cluster.feed(*written, site.url("/right"), written=written)
        await cluster.end_of(crawl, timeout_s=90)
    assert cluster.failures() == dict.fromkeys(texts, "invalid_request")
    assert [record["url"] for record in cluster.results()] == [site.url("/right")]


@both_ways
async def test_a_moderated_domain_is_never_asked_too_early(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Keeps the spacing of the rule by the site's own clock, with retries and redirects."""
    site.pages |= {
        "/": page(*(f"/{n}" for n in range(12)), "/moved", "/flaky"),
        "/moved": Answer(status=302, headers={"Location": "/target"}),
        "/flaky": once(Answer(status=503), page()),
        **{f"/{n}": page() for n in range(12)},
    }
    await cluster.set_rules(ThrottleRule(hits=10, window_s=1, moderated=True, concurrency=8), {})
    with cluster.worker():
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        await cluster.end_of(crawl, timeout_s=90)
    times = sorted(visit.at for visit in site.visits)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(times) == 17
    assert min(gaps) >= 0.099
    assert sorted(gaps)[len(gaps) // 2] < 0.2


@both_ways
async def test_robots_txt_is_bought_once_by_the_first_grant(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Two workers obey one fetch of robots.txt; disallowed pages fail with a reason, unvisited."""
    site.pages |= {
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /private"),
        "/": page("/private/x", *(f"/{n}" for n in range(10))),
        **{f"/{n}": page() for n in range(10)},
    }
    with cluster.worker(ROBOTSTXT_OBEY="true"), cluster.worker("link", ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        state = await cluster.end_of(crawl, timeout_s=90)
    asked = [visit.path for visit in site.visits]
    assert asked[0] == "/robots.txt"
    assert asked.count("/robots.txt") == 1
    assert "/private/x" not in asked
    assert cluster.failures() == {site.url("/private/x"): "robots"}
    assert (state.done, state.failed) == (11, 1)


async def test_robots_txt_that_is_missing_allows_and_one_that_fails_waits(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """404 means everything is allowed; 5xx means not now, and the page is not used up."""
    site.pages |= {
        "127.0.0.1/": page(),
        "127.0.0.2/robots.txt": once(Answer(status=503), Answer(b"")),
        "127.0.0.2/": page(),
        "127.0.0.3/robots.txt": Answer(status=301, headers={"Location": "/r.txt"}),
        "127.0.0.3/r.txt": Answer(b"User-agent: *\nDisallow: /"),
    }
    urls = [site.url("/", host=f"127.0.0.{n}") for n in (1, 2, 3)]
    with cluster.worker(ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(*urls)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert counted(cluster.results()) == {urls[0]: 1, urls[1]: 1}
    assert {record["attempt"] for record in cluster.results()} == {1}
    assert cluster.failures() == {urls[2]: "robots"}
    assert state.residual == 0


@both_ways
async def test_the_guard_stands_before_pages_redirects_and_robots(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """An address outside the opened range is never connected to, whatever points there."""
    inside = site.url("/", host="127.0.0.1")
    site.pages |= {
        "127.0.0.2/": page(inside),
        "127.0.0.2/moved": Answer(status=302, headers={"Location": site.url("/moved")}),
        "127.0.0.2/robots.txt": Answer(status=404),
    }
    seeds = [site.url("/", host="127.0.0.2"), site.url("/moved", host="127.0.0.2")]
    with cluster.worker(CRAWLSTREAM_ALLOW_NETWORKS="127.0.0.2/32", ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(*seeds, maxdepth=1)
        await cluster.end_of(crawl, timeout_s=90)
    assert {visit.host for visit in site.visits} == {"127.0.0.2"}
    assert cluster.failures() == dict.fromkeys([inside, site.url("/moved")], "address_refused")


@both_ways
async def test_redirects_end_where_they_must(cluster: CrawlerCluster, site: CrawlerSite) -> None:
    """Loops and endless chains fail with a reason; a page behind a cookie is reached."""

    def endless(visit: SeenRequest) -> Answer:
        number = int(visit.path.rpartition("/")[2])
        return Answer(status=302, headers={"Location": f"/endless/{number + 1}"})

    def gated(visit: SeenRequest) -> Answer:
        if "seen=1" in visit.headers.get("cookie", ""):
            return page()
        return Answer(status=302, headers={"Location": "/gated", "Set-Cookie": "seen=1; Path=/"})

    site.pages |= {
        "/loop": Answer(status=301, headers={"Location": "/pool"}),
        "/pool": Answer(status=301, headers={"Location": "/loop"}),
        "/nowhere": Answer(b"<p>moved", status=302),
        "/away": Answer(b"<p>away", status=302, headers={"Location": "file:///etc/passwd"}),
        "/gated": gated,
        **{f"/endless/{number}": endless for number in range(20)},
    }
    seeds = [site.url(path) for path in ("/loop", "/endless/0", "/gated", "/nowhere", "/away")]
    with cluster.worker():
        crawl = await cluster.feed(*seeds)
        await cluster.end_of(crawl, timeout_s=90)
    delivered = {(r["url"], r["status_code"]) for r in cluster.results()}
    assert delivered == {
        (site.url("/gated"), 200),
        (site.url("/nowhere"), 302),
        (site.url("/away"), 302),
    }
    assert cluster.failures() == {
        site.url("/pool"): "redirect_loop",
        site.url("/endless/10"): "too_many_redirects",
    }


@both_ways
async def test_no_request_leaves_that_was_not_granted(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """A kept connection that turns out dead is not tried again behind the frontier's back."""
    site.pages |= {"/": page("/dropped"), "/dropped": Answer(raw=b"")}
    with cluster.worker(RETRY_TIMES="1"):
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        await cluster.end_of(crawl, timeout_s=90)
    assert site.paths().count("/dropped") == 2
    assert cluster.failures() == {site.url("/dropped"): "connection_lost"}


async def test_a_worker_by_other_rules_than_its_equals_does_not_begin(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """It ends with 2 and names both values; the other one goes on."""
    site.pages |= {"/": page()}
    with cluster.worker(RETRY_TIMES="1") as worker:
        crawl = await cluster.feed(site.url("/"))
        await cluster.end_of(crawl, timeout_s=90)
        with cluster.worker(RETRY_TIMES="2") as other:
            assert other.wait() == 2
        assert "crawler: RETRY_TIMES is 2 here and 1 in crawler:" in other.logged()
        assert worker.is_running()
