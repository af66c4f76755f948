"""Crawls that act on the verdicts of the waste guard."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from crawling.quality.address_parts import host_hash
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.refused_families import RefusedFamily
from crawlstream.model.web.url_parameters import Parameters
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.packing import pack
from crawlstream_frontier.waste.persons import PersonVerdict
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.texts import FrequentTexts, SiteTexts
from crawlstream_frontier.waste.votes import run_hash
from crawlstream_frontier.worker.sketch_store import SketchWrite
from support.crawler.cluster import CrawlerCluster
from support.session.own import own_redis_server
from support.waste.shown import text_of

__all__ = ["own_redis_server"]

pytest_plugins = ["support.crawler.fixtures"]

HOST = "127.0.0.1"
ONE_BY_ONE = ThrottleRule(hits=1000, window_s=1, concurrency=1)
ERROR = page("/beyond", text="not found")
FORMS = ("/p/1?sid={}", "/c?view={}", "/c?sort={}", "/find?q={}", "/p/2?n={}")


def _sketch() -> bytes:
    """Return a sketch with a verdict of each kind."""
    sketch = Sketch()
    sketch.main, sketch.pages = host_hash(HOST), 1000
    # Crawlers of these runs have refused it, and were replaced by others.
    sketch.runs = [run_hash(CrawlKey("link", "tests", name), 1) for name in ("on", "crawl")]
    families = {
        "?sid": Family(key=0, counts=YieldCounts(), eq=20, is_dropped=True),
        "?view": Family(key=0, counts=YieldCounts(), state=FamilyState.LAST),
        "?sort": Family(key=0, counts=YieldCounts(), state=FamilyState.REFUSED),
    }
    for name, family in families.items():
        family.key = family_hash(name)
    sketch.families = FamilyTable(list(families.values()))
    sketch.texts = SiteTexts(FrequentTexts({text_of(ERROR): (9, 0)}, {text_of(ERROR): True}, 1))
    return pack(sketch, 1)


def _usual_ones(web: CrawlerSite, form: str) -> Iterator[str]:
    """Return the paths of a form that follow its verdict, as most do."""
    paths = (form.format(n) for n in itertools.count())
    samples = ((path, crc32(web.url(path).encode()) >> 4) for path in paths)
    return (path for path, sample in samples if sample % 32 and sample % 64 != 1)


def _usual(web: CrawlerSite, form: str) -> str:
    return next(_usual_ones(web, form))


def _refused(web: CrawlerSite, amount: int) -> list[str]:
    return [*itertools.islice(_usual_ones(web, "/c?sort={}"), amount)]


def _links(web: CrawlerSite) -> tuple[str, ...]:
    return tuple(_usual(web, form) for form in FORMS)


async def _crawl(
    cluster: CrawlerCluster, guard: str, refused: int = 0, family: str = "?sort", **asked: Any
) -> tuple[list[str], tuple[str, ...]]:
    """Crawl a site whose second page is slow, so that its sketch is known.

    Return the paths that were fetched, and the links of that page, of which some are ``refused``.
    """
    await cluster.frontier.sketches.replace([SketchWrite(HOST, None, _sketch())])
    with serving({"/": page("/list")}) as web, cluster.worker():
        links = _links(web)
        web.pages["/list"] = Answer(page(*links).body, after_s=2.5)
        web.pages |= {path: page("/further") for path in (links[1], links[4])}
        web.pages["/p/1"] = ERROR
        crawl = await cluster.feed(web.url("/"), crawlid=guard, maxdepth=9, guard=guard, **asked)
        state = await cluster.end_of(crawl, timeout_s=60)
    assert state.filtered_by_reason.get("guard_parameter", 0) == refused
    families = [RefusedFamily(HOST, family, "guard_parameter", 1)]
    assert list(state.refused_families) == families[:refused]
    return web.paths(), links


async def test_links_are_followed_put_last_cleaned_and_refused(cluster: CrawlerCluster) -> None:
    """Pages of the last band come last, and lead on; so do links of a page that does not exist."""
    await cluster.set_rules(ONE_BY_ONE, {})
    paths, (with_id, view, _sort, search, plain) = await _crawl(cluster, "on", 1)
    assert paths[:4] == ["/", "/list", "/p/1", plain]
    assert set(paths[4:]) == {view, search, "/further", "/beyond"}
    assert paths.index("/beyond") > paths.index("/further")
    (listed,) = [each for each in cluster.results() if each["url"].endswith("/list")]
    assert listed["guard"] == {"refused": {"guard_parameter": 1}, "last": 2}
    names = [link["text"] for link in listed["links"]]
    assert names == [with_id, view, search, plain]


async def test_a_crawl_keeps_and_drops_parameters_whatever_the_guard_has_learned(
    cluster: CrawlerCluster,
) -> None:
    """Kept ones are requested in their spelling and in their turn; pages of others wait."""
    await cluster.set_rules(ONE_BY_ONE, {})
    names = Parameters(keep=("s*", "view"), drop=("n",))
    paths, (with_id, view, sort, search, _plain) = await _crawl(cluster, "on", parameters=names)
    assert set(paths) == {"/", "/list", with_id, view, sort, "/p/2", "/further", search}
    assert paths.index(search) > max(map(paths.index, (view, sort, "/p/2")))


async def test_verdicts_of_persons_prevail(cluster: CrawlerCluster) -> None:
    """A path is refused, with all of its links, and what was learned does not count."""
    await cluster.set_rules(ONE_BY_ONE, {})
    names = {"?sort": "allow", "?view": "refuse", "?q": "allow"}
    for name, word in names.items():
        verdict = PersonVerdict(HOST, name, family_hash(name), word, "anna")
        await cluster.frontier.person_verdicts.put(verdict)
    paths, (_with_id, _view, sort, search, plain) = await _crawl(cluster, "on", 1, "?view")
    assert set(paths) == {"/", "/list", "/p/1", sort, search, plain, "/further", "/beyond"}


async def test_a_crawl_that_watches_follows_all_links(cluster: CrawlerCluster) -> None:
    """Verdicts that others have learned change nothing."""
    await cluster.set_rules(ONE_BY_ONE, {})
    paths, links = await _crawl(cluster, "watch")
    assert sorted(paths) == sorted(["/", "/list", *links, "/further"])
    assert all("guard" not in each for each in cluster.results())


async def test_pages_that_were_queued_before_a_verdict_are_judged_when_they_are_leased(
    cluster: CrawlerCluster,
) -> None:
    """Refused ones are skipped and reported, one goes on in its clean form, two are put last.

    Skipped ones cost no request and few calls; the pages among them are fetched in their order.
    """
    await cluster.set_rules(ONE_BY_ONE, {})
    await cluster.frontier.sketches.replace([SketchWrite(HOST, None, _sketch())])
    with serving({"/slow": Answer(page("/p/3").body, after_s=2.5)}) as web, cluster.worker():
        _with_id, view, _sort, search, plain = links = _links(web)
        refused, among = _refused(web, 200), [f"/q/{n}" for n in range(20)]
        mixed = [*refused[:10], among[0], *refused[10:100], *among[1:], *refused[100:]]
        web.pages["/"] = page("/slow", *links, *mixed)
        crawl = await cluster.feed(web.url("/"), maxdepth=9, guard="on")
        state = await cluster.end_of(crawl, timeout_s=60)
    paths = web.paths()
    assert paths[:2] == ["/", "/slow"]
    assert {"/p/1", plain, "/p/3", *among} | {view, search} == set(paths[2:])
    assert [path for path in paths if path in among] == among
    # Pages that the worker looks at without a grant, 128 at most, may come behind the last band.
    assert min(map(paths.index, (view, search))) > paths.index(among[0])
    assert (state.skipped_by_reason, state.redirected) == ({"guard_parameter": 200}, 1)
    assert state.residual == 0
    events = cluster.records(cluster.topics.events)
    skipped = [event for event in events if event["event"] == "pages_skipped"]
    assert {event["family"] for event in skipped} == {"?sort"}
    urls = [page["url"] for event in skipped for page in event["pages"]]
    assert sorted(urls) == sorted(map(web.url, refused))
    assert len(skipped) < 40
    assert {each["attempt"] for each in cluster.results()} == {1}


async def test_seeds_and_targets_of_redirects_are_fetched_as_they_are(
    cluster: CrawlerCluster,
) -> None:
    """A client, or the site, has named just this URL."""
    await cluster.set_rules(ONE_BY_ONE, {})
    await cluster.frontier.sketches.replace([SketchWrite(HOST, None, _sketch())])
    moved = Answer(status=302, headers={"Location": "/c?sort=2"})
    pages = {"/": page("/slow", "/moved"), "/slow": Answer(after_s=2.5), "/moved": moved}
    with serving(pages) as web, cluster.worker():
        seeds = [web.url(path) for path in ("/", "/c?sort=1", "/p?sid=1")]
        crawl = await cluster.feed(*seeds, maxdepth=9, guard="on")
        state = await cluster.end_of(crawl, timeout_s=60)
    assert {"/c?sort=1", "/p?sid=1", "/c?sort=2"} <= set(web.paths())
    assert state.skipped == 0
