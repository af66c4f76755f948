"""A crawl request in, every page of it out: once, whole, in the shape that clients know."""

from __future__ import annotations

import base64
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import pytest

from crawlstream_chaos.witness import Witness
from crawlstream_cli.demo.http_reply import render
from crawlstream_cli.demo.web import ContentKind
from e2e.sites import Serve, ServedWeb
from support.waiting import WaitUntil

AS_BEFORE: dict[str, Any] = {
    "appid": str,
    "crawlid": str,
    "attrs": (dict, type(None)),
    "url": str,
    "response_url": str,
    "status_code": int,
    "status_msg": str,
    "response_headers": dict,
    "request_headers": dict,
    "body": str,
    "encoding": str,
    "links": list,
    "timestamp": str,
}
"""The keys of a result that clients of the predecessor read, and their types."""
ALWAYS_ADDED: dict[str, Any] = {
    "spiderid": str,
    "depth": int,
    "seed_url": str,
    "attempt": int,
    "latency_ms": int,
    "ip": str,
    "body_size": int,
    "run": int,
    "id": str,
    "digest": str,
}
SOMETIMES_ADDED = {
    "parent_url",
    "redirect_urls",
    "body_encoding",
    "body_truncated",
    "uuid",
    "recovered",
}


async def crawl(
    served: ServedWeb, witness: Witness, wait_until: WaitUntil, **request: Any
) -> list[dict[str, Any]]:
    """Feed a crawl of a web's front page, wait for its ending, return its results."""
    name = {"appid": "e2e", "crawlid": request.pop("crawlid", f"crawl-{served.web.port}")}
    witness.feed({"url": served.web.seed_url, **name, **request})
    ending = await witness.ended(name["crawlid"], timeout_s=60)
    assert ending["event"] == "crawl_finished", ending
    done = ending["counters"]["done"]
    await wait_until(lambda: len(witness.results(name["crawlid"])) >= done)
    return witness.results(name["crawlid"])


async def test_a_request_comes_back_as_a_result_with_the_known_keys(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """Key by key and type by type, a result is what clients of the predecessor read, and more."""
    async with serve(hosts=1, pages=1) as served:
        before = time.time()
        (result,) = await crawl(served, witness, wait_until, attrs={"k": 1}, uuid="u-keys")
    known = AS_BEFORE | ALWAYS_ADDED
    assert known.keys() <= result.keys() <= known.keys() | SOMETIMES_ADDED
    for key, kind in known.items():
        assert isinstance(result[key], kind), f"{key} is {result[key]!r}"
    assert result["attrs"] == {"k": 1}
    assert result["url"] == result["response_url"] == result["seed_url"] == served.web.seed_url
    assert (result["status_code"], result["status_msg"]) == (200, "OK")
    assert (result["spiderid"], result["depth"], result["attempt"]) == ("link", 0, 1)
    assert result["ip"] == served.web.hosts[0]
    assert result["response_headers"]["Content-Type"] == ["text/html; charset=utf-8"]
    assert result["body"].encode() == render(served.web, served.web.pages[0]).body
    stamp = time.strptime(result["timestamp"].partition(".")[0], "%Y-%m-%dT%H:%M:%S")
    assert before - 2 < time.mktime(stamp) - time.timezone < time.time() + 2
    (record,) = witness.records("crawled_firehose", crawlid=result["crawlid"])
    assert record.key == result["id"]
    accepted = witness.reply("u-keys")
    assert accepted
    assert (accepted["action"], accepted["run"]) == ("accepted", result["run"])


async def test_every_page_is_fetched_and_delivered_exactly_once(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """Results, fetches and counters of a whole crawl agree with what the site knows of itself."""
    async with serve() as served:
        results = await crawl(served, witness, wait_until, maxdepth=3)
        truth = served.truth(maxdepth=3)
        assert {r["url"]: r["status_code"] for r in results} == truth.delivered
        assert len(results) == len({r["id"] for r in results}) == len(truth.delivered)
        assert {r["url"]: r["depth"] for r in results} == truth.depths
        assert served.fetches() == truth.fetches
        robots = Counter(v.host for v in served.visits() if v.path == "/robots.txt")
        assert robots == dict.fromkeys(served.web.hosts, 1)
    ending = witness.ending(results[0]["crawlid"])
    assert ending
    counters = ending["counters"]
    assert counters["done"] == len(truth.delivered)
    assert counters["failed"] == len(truth.forbidden)
    assert counters["redirected"] == len(truth.redirected)
    assert counters["admitted"] == sum(
        counters[end] for end in ("done", "failed", "redirected", "skipped", "stopped", "expired")
    )
    failed = witness.events(results[0]["crawlid"], "page_failed")
    assert {event["url"]: event["reason"] for event in failed} == dict.fromkeys(
        truth.forbidden, "robots"
    )


async def test_results_tell_where_they_come_from(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """Records show redirects, retries, binary bodies and other charsets."""
    async with serve() as served:
        results = await crawl(served, witness, wait_until, maxdepth=3)
        web = served.web
        by_url = {result["url"]: result for result in results}
        kinds = {web.url(page): page for page in web.pages}
        for url, result in by_url.items():
            page = kinds[url]
            body = render(web, page).body
            parent = web.pages[page.parent or 0]
            assert result["attempt"] == (2 if page.kind is ContentKind.FLAKY else 1)
            assert result["body_size"] == len(body)
            if page.kind is ContentKind.IMAGE:
                assert result["body_encoding"] == "base64"
                assert base64.b64decode(result["body"]) == body
            elif page.kind is ContentKind.LATIN1:
                assert result["body"] == body.decode("latin-1")
                assert result["encoding"] == "cp1252"
            else:
                assert result["body"] == body.decode()
            if parent.kind is ContentKind.MOVED:
                assert result["redirect_urls"] == [web.url(parent)]
            elif page.parent is not None:
                assert result["parent_url"] == web.url(parent)
        assert not any(result["links"] for result in results if result["depth"] == 3)
        listed = {link["url"] for link in by_url[web.seed_url]["links"]}
        children = {web.url(web.pages[n]) for n in web.pages[0].children}
        assert listed - {web.seed_url} == {
            u for u in children if kinds[u].kind is not ContentKind.FILE
        }


@pytest.mark.parametrize(
    "rules",
    [
        {"allowed_domains": 3},
        {"deny_regex": ["lantern|tower|pier|quay"]},
        {"allow_regex": [r"-\d*[02468]$", r":\d+/$"]},
        {"deny_extensions": ["zip", "pdf"]},
    ],
    ids=lambda rules: next(iter(rules)),
)
async def test_a_crawl_keeps_to_its_rules(
    rules: dict[str, Any], serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """Domains, expressions and extensions decide which links are followed, and nothing else."""
    async with serve(pages=60) as served:
        if "allowed_domains" in rules:
            rules = {"allowed_domains": list(served.web.hosts[: rules["allowed_domains"]])}
        results = await crawl(served, witness, wait_until, maxdepth=2, **rules)
        truth = served.truth(maxdepth=2, **{key: tuple(value) for key, value in rules.items()})
        assert {r["url"]: r["status_code"] for r in results} == truth.delivered
        assert served.fetches() == truth.fetches


async def test_a_page_limit_counts_pages(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """domain_max_pages limits the admitted pages of each domain, the seed included."""
    async with serve(hosts=3, pages=60) as served:
        await crawl(served, witness, wait_until, maxdepth=2, domain_max_pages=4)
        pages = Counter(urlsplit(url).hostname for url in served.fetches())
    ending = witness.ending(f"crawl-{served.web.port}")
    assert ending
    assert ending["counters"]["filtered"]["domain_max_pages"] > 0
    assert all(count <= 4 + ending["counters"]["redirected"] for count in pages.values())
    assert pages[served.web.hosts[0]] >= 4


async def test_requests_look_as_the_client_wants_them(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """The site gets the user agent and the cookie of the request."""
    async with serve(hosts=1, pages=1) as served:
        name = {"appid": "e2e", "crawlid": f"looks-{served.web.port}"}
        witness.feed(
            {"url": served.url("/echo"), **name, "useragent": "a friend/1.0", "cookie": "a=1; b=2"}
        )
        await witness.ended(name["crawlid"], timeout_s=90)
        (result,) = await wait_until(lambda: witness.results(name["crawlid"]))
    assert "User-Agent: a friend/1.0" in result["body"]
    assert "Cookie: a=1; b=2" in result["body"]


async def test_the_same_crawl_fed_again_is_a_new_run(
    serve: Serve, witness: Witness, wait_until: WaitUntil
) -> None:
    """Fed again after its end, the seed is fetched again under another id; its links are known."""
    async with serve(hosts=2, pages=12) as served:
        first = await crawl(served, witness, wait_until, maxdepth=1)
        crawlid = first[0]["crawlid"]
        name = {"appid": "e2e", "crawlid": crawlid}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 1})
        await wait_until(lambda: len(witness.events(crawlid, "crawl_finished")) == 2, timeout_s=90)
        again = [r for r in witness.results(crawlid) if r["run"] != first[0]["run"]]
    assert [r["url"] for r in again] == [served.web.seed_url]
    assert again[0]["id"] not in {r["id"] for r in first}


async def test_the_cluster_is_polite_to_robots(serve: Serve, witness: Witness) -> None:
    """A forbidden seed is not fetched and says so; a client cannot overrule its operator."""
    async with serve() as served:
        web = served.web
        page = next(
            p for p in web.pages if p.kind is ContentKind.FORBIDDEN and not web.may_fetch(p)
        )
        name = {"appid": "e2e", "crawlid": f"robots-{web.port}"}
        witness.feed({"url": web.url(page), **name, "obey_robots": False})
        ending = await witness.ended(name["crawlid"], timeout_s=90)
        assert [v.path for v in served.visits()] == ["/robots.txt"]
    assert ending["counters"]["failed"] == 1
    (failed,) = witness.events(name["crawlid"], "page_failed")
    assert (failed["url"], failed["reason"]) == (web.url(page), "robots")
