"""Directives of pages in a whole crawl: followed or obeyed, and what its account says."""

from __future__ import annotations

from pathlib import Path

from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

_RELS = b"<a rel=nofollow href=/r1>x</a><a href=/r2>x</a><a rel=nofollow href=/r2>x</a>"


def _below(folder: Path) -> list[Path]:
    """Return all that is in a folder, which may not exist."""
    return [*folder.rglob("*")]


def _saying(text: str, answer: Answer) -> Answer:
    """Return an answer with a header of directives."""
    return Answer(
        answer.body,
        answer.status,
        {**HTML, **answer.headers},
        more_headers=[("X-Robots-Tag", text)],
    )


async def test_bodies_are_not_kept_where_a_crawl_or_the_operator_says_so(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """Their results have size and digest; nothing is in the body store, and links are followed."""
    long = page("/over", "/plain", text="x" * 5000)
    site.pages |= {
        "/": _saying("noarchive", long),
        "/over": Answer(b"<meta name=robots content='unavailable_after: 2020-01-01'>" + long.body),
        "/plain": _saying("nosnippet, unavailable_after: 2099-01-01", page()),
    }
    seed = {"url": site.url("/"), "maxdepth": 1}
    bodies = tmp_path / "bodies"
    store = {"CRAWLSTREAM_BODY_STORE": bodies.as_uri(), "CRAWLSTREAM_MAX_BODY_BYTES": "1024"}
    with cluster.worker(CRAWLSTREAM_DROP="noindex", **store):
        first = await cluster.ask({**seed, "drop": ["noarchive"]})
        assert (await cluster.end_of(first, timeout_s=60)).done == 3
        kept = _below(bodies)
        other = await cluster.ask({**seed, "crawlid": "kept"})
        await cluster.end_of(other, timeout_s=60)
    assert kept == []
    results = {(r["crawlid"], r["url"].partition(str(site.port))[2]): r for r in cluster.results()}
    assert {place: each.get("dropped") for place, each in results.items()} == {
        ("crawl", "/"): "noarchive", ("crawl", "/over"): "noindex", ("crawl", "/plain"): None,
        ("kept", "/"): None, ("kept", "/over"): "noindex", ("kept", "/plain"): None,
    }  # fmt: skip
    dropped, whole = results["crawl", "/"], results["kept", "/"]
    assert (dropped["body"], "body_ref" in dropped, "body_ref" in whole) == ("", False, True)
    for name in ("body_size", "digest", "links", "encoding"):
        assert dropped[name] == whole[name]
    assert results["crawl", "/plain"]["body"] == page().body.decode()


async def test_links_are_left_out_and_counted_where_directives_are_obeyed(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Leaves out links by header, meta and rel; a crawl that only records follows all."""
    site.pages |= {
        "/": _saying("otherbot: nofollow", page("/header", "/meta", "/rel", "/moved")),
        "/header": _saying("nofollow", page("/h")),
        "/meta": Answer(
            b"<meta name=robots content='noindex, nofollow'><a href=/m1>x</a><a href=/m2>x</a>"
        ),
        "/rel": Answer(_RELS),
        "/moved": _saying("nofollow", Answer(status=302, headers={"Location": "/target"})),
        **dict.fromkeys(("/target", "/h", "/m1", "/m2", "/r1", "/r2"), page()),
    }
    seed = {"url": site.url("/"), "maxdepth": 2}
    with cluster.worker(CRAWLSTREAM_DIRECTIVES="obey") as worker:
        obeying = await cluster.end_of(await cluster.ask(seed), timeout_s=60)
        visited = sorted(site.paths())
        recording = {**seed, "crawlid": "all", "directives": "record"}
        followed = await cluster.end_of(await cluster.ask(recording), timeout_s=60)
        reasons = [e["reason"] for e in worker.events() if e.get("outcome") == "contradiction"]
    everywhere = ["/", "/header", "/meta", "/moved", "/r2", "/rel", "/target"]
    assert visited == everywhere
    assert (obeying.done, obeying.filtered_by_reason) == (6, {"nofollow": 4})
    assert sorted(site.paths()[len(visited) :]) == sorted([*everywhere, "/h", "/m1", "/m2", "/r1"])
    assert (followed.done, followed.filtered_by_reason) == (10, {})
    assert reasons == [
        "CRAWLSTREAM_DIRECTIVES=obey obeys pages, and ROBOTSTXT_OBEY=false ignores robots.txt"
    ]
    told = {
        (each["crawlid"], each["url"].partition(str(site.port))[2]): (
            each.get("directives"),
            len(each["links"]),
        )
        for each in cluster.results()
    }
    assert told["crawl", "/header"] == (["nofollow"], 0)
    assert told["all", "/header"] == (["nofollow"], 1)
    assert told["crawl", "/meta"] == (["noindex", "nofollow"], 0)
    assert told["all", "/meta"] == (["noindex", "nofollow"], 2)
    assert told["crawl", "/rel"] == (None, 1)
    assert told["crawl", "/"] == (None, 4)
