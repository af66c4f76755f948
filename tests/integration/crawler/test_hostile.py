"""A crawler process among clients and sites that mean harm.

``HOSTILE_ROUNDS=16`` sends it that often through the corpus of hostile servers, with the slots and
the limits of size that are in force by default.
"""

from __future__ import annotations

import os
from pathlib import Path

from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.hostile_pages import MIB, corpus
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, page
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways
from support.hostile.markup import shapes
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

SLOW_NAMES = """
import time
from crawling.net import address_guard as guard

asked = guard._system_lookup

def slow(host):
    if host.endswith(".invalid"):
        time.sleep(9)
    return asked(host)

guard._system_lookup = slow
"""

ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "1"))
RESIDENT = 300 * MIB
"""Limits of a worker among hostile servers."""


def said(charset: str, body: bytes) -> Answer:
    """A page that declares a charset."""
    return Answer(body, headers={"Content-Type": f"text/html; charset={charset}"})


async def test_an_endless_expression_and_a_trap_end_counted(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Backtracking stops at its budget, paths that pile up are not followed, the crawl ends."""

    def trap(visit: SeenRequest) -> Answer:
        return page(f"{visit.path}/deeper", "/out")

    slow = f"/{'a' * 60}!"
    site.pages |= {"/": page("/trap", "/out"), "/out": page()}
    site.pages |= {f"/trap{'/deeper' * number}": trap for number in range(30)}
    site.pages |= {"/many": page("/first", *(f"{slow}{number}" for number in range(5)))}
    site.pages |= {"/first": page()}
    with cluster.worker():
        piles_up = await cluster.feed(site.url("/"), crawlid="piles-up", maxdepth=20)
        backtracks = await cluster.feed(
            site.url("/many"), crawlid="backtracks", maxdepth=1, deny_regex=(r"(?!x)(a|a)*$|never",)
        )
        piled = await cluster.end_of(piles_up, timeout_s=90)
        backtracked = await cluster.end_of(backtracks, timeout_s=90)
    assert (piled.done, piled.filtered_by_reason["path_repeats"]) == (6, 1)
    assert backtracked.done == 1
    assert sum(backtracked.filtered_by_reason.values()) == 6
    assert backtracked.filtered_by_reason["regex_timeout"] >= 4


async def test_no_declared_charset_costs_the_page(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """An unknown charset is read as UTF-8 if the body is that, else as Western European."""
    site.pages |= {
        f"/{name}": said(name, "<p>grün</p><a href=/next>".encode())
        for name in ("punycode", "idna", "rot13", "bz2", "undefined", "unicode_escape", "nothing")
    }
    site.pages |= {
        "/western": said("rot13", "<p>grün</p>".encode("cp1252")),
        "/koi": said("koi8-r", "<p>да</p>".encode("koi8-r")),
        "/long": said("punycode", b"a" * 1_000_000),
    }
    seeds = [site.url(path) for path in site.pages]
    with cluster.worker():
        crawl = await cluster.feed(*seeds, maxdepth=1)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == len(seeds) + 1
    bodies = {record["url"]: record["body"] for record in cluster.results()}
    found = {path: bodies[site.url(path)][:11] for path in site.pages}
    assert found.pop("/long") == "a" * 11
    assert found.pop("/koi") == "<p>да</p>"
    assert set(found.values()) == {"<p>grün</p>"}, found


async def _held(cluster: CrawlerCluster, crawl: CrawlKey) -> bool:
    return (await cluster.state_of(crawl)).held >= 4


async def test_names_that_nobody_answers_for_hold_up_no_other_site(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """While as many lookups as there are slots take their time, other hosts are crawled."""
    (tmp_path / "slow_names.py").write_text(SLOW_NAMES)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    healthy = [f"/healthy/{number}" for number in range(40)]
    site.pages |= dict.fromkeys(healthy, page())
    dead = [f"http://no{number}.invalid/" for number in range(8)]
    extra = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "slow_names", "RETRY_TIMES": "0"}
    with cluster.worker(CONCURRENT_REQUESTS="4", **extra):
        names = await cluster.feed(*dead, crawlid="names", priority=99)
        await wait_until(lambda: _held(cluster, names))
        good = await cluster.feed(*map(site.url, healthy), crawlid="healthy")
        assert (await cluster.end_of(good, timeout_s=8)).done == len(healthy)
        assert not (await cluster.state_of(names)).failed
        await cluster.end_of(names, timeout_s=60)
    assert cluster.failures() == dict.fromkeys(dead, "dns")


@both_ways
async def test_every_hostile_server_ends_in_its_outcome_and_starves_nobody(
    cluster: CrawlerCluster, site: CrawlerSite, wait_until: WaitUntil, way: str
) -> None:
    """Each case ends as it must, in bounded memory; four slots serve others next to nine drips."""
    largest, patience_s = (4 * MIB, 30) if ROUNDS == 1 else (16 * MIB, 80)
    cases = corpus(largest)
    healthy = [f"/healthy/{number}" for number in range(40)]
    site.pages |= {path: case.page for path, case in cases.items()}
    site.pages |= dict.fromkeys(healthy, page())
    expected = {
        site.url(path, f"127.{9 + turn}.{copy}.{number}"): case.ends_by(way)
        for turn in range(ROUNDS)
        for number, (path, case) in enumerate(cases.items(), 1)
        for copy in range(3 if path.startswith("/drip") else 1)
    }
    drips = sum("/drip" in url for url in expected)
    slots = 4 * ROUNDS
    limits = {
        "RETRY_TIMES": "0",
        "DOWNLOAD_TIMEOUT": str(patience_s),
        "CONCURRENT_REQUESTS": str(slots),
        "CRAWLSTREAM_DOWNLOAD_MAX_BYTES": str(largest),
    }
    with cluster.worker(**limits) as worker:
        crawl = await cluster.feed(*expected, crawlid="hostile")
        await wait_until(
            lambda: " ".join(site.paths()).count("/drip/") == drips, timeout_s=2 * patience_s
        )
        good = await cluster.feed(*map(site.url, healthy), crawlid="healthy")
        assert (await cluster.end_of(good, timeout_s=90)).done == len(healthy)
        assert not (await cluster.state_of(crawl)).failed_by_reason.get("timeout")
        state = await cluster.end_of(crawl, timeout_s=90 * ROUNDS)
        assert worker.most_resident < RESIDENT
    ends: dict[str, int | str] = {r["url"]: r["status_code"] for r in cluster.results()}
    ends |= cluster.failures()
    assert {url: end for url, end in ends.items() if "/healthy/" not in url} == expected
    assert state.done + state.failed == state.admitted == len(expected)


async def test_markup_that_means_to_cost_holds_up_no_other_site(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Another site's pages come in time; hostile ones are results, and what was cut is counted."""
    crowded = [shape(MIB) for name, shape in shapes().items() if name.startswith("attributes")]
    hostile = {f"/hostile/{number}": text for number, text in enumerate(crowded)}
    site.pages |= {
        path: Answer(f"<a href=/found>{text}".encode()) for path, text in hostile.items()
    }
    healthy = [f"/healthy/{number}" for number in range(20)]
    site.pages |= dict.fromkeys((*healthy, "/found"), page())
    with cluster.worker() as worker:
        crawl = await cluster.feed(
            *(site.url(path, f"127.9.0.{n}") for n, path in enumerate(hostile, 1)),
            crawlid="hostile",
            maxdepth=1,
        )
        good = await cluster.feed(*map(site.url, healthy), crawlid="healthy")
        assert (await cluster.end_of(good, timeout_s=30)).done == len(healthy)
        state = await cluster.end_of(crawl, timeout_s=30)
        assert worker.most_resident < RESIDENT
    assert state.done == 2 * len(hostile)
    assert state.filtered_by_reason["markup_cut"] == len(hostile)
