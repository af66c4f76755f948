"""A web of oddities, crawled once: its log has what a browser would have asked for, and no more.

``support/oddities`` has the cases, each on hosts of its own: what a site answers, and what it must
be asked for. Those in which the client has a part are played by Scrapy's engine as well.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from crawlstream_chaos.scripted_site import serving
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from support.forks.program import ForkedCrawler
from support.oddities import answers, charsets, links, robots, sitemaps
from support.oddities.case import ROBOTS, Case, OddSite, Placed
from support.waiting import WaitUntil

OF_BOTH_WAYS = (
    *links.ADDRESSES, *links.TYPES, *answers.ANSWERS, *answers.COOKIES, *answers.BODIES,
)  # fmt: skip
"""Oddities that need the client's part."""
CASES: Mapping[str, Sequence[Case]] = {
    "lane": (
        *OF_BOTH_WAYS, *links.MARKUP, *charsets.CHARSETS, *robots.ROBOTS_TXT, *answers.REFRESHES,
        *sitemaps.SITEMAPS,
    ),
    "engine": OF_BOTH_WAYS,
}  # fmt: skip
LONGEST_S = 90
"""However busy the machine is."""
ENV = {
    "CRAWLSTREAM_SPIDER_MODULES": "support.oddities.spiders",
    "PYTHONPATH": os.pathsep.join(sys.path),
    "USER_AGENT": robots.AGENT,
    "RETRY_TIMES": "1",
    "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
    "DOWNLOAD_TIMEOUT": "10",
}


async def test_a_site_of_oddities_is_asked_for_what_a_browser_asks_for(
    cluster: Cluster, witness: Witness, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Paths, cookies and order of requests, failures and filtered links: for each case as it says.

    robots.txt comes first, once, and is obeyed as RFC 9309 has it.
    """
    wrong: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        played = {way: _play(way, witness, stack) for way in CASES}
        stack.enter_context(_crawlers(cluster, tmp_path))
        crawls = {crawlid for cases in played.values() for crawlid in cases}
        with suppress(TimeoutError):
            await wait_until(lambda: all(map(witness.ending, crawls)), timeout_s=LONGEST_S)
        for way, cases in played.items():
            for crawlid, case in cases.items():
                if found := _judge(case, witness, crawlid):
                    wrong[f"{case.case.name} ({way})"] = found
    assert not wrong, _report(wrong)


def _play(way: str, witness: Witness, stack: ExitStack) -> dict[str, Placed]:
    """Feed a crawl for each case, to a site of their own; return them by crawl."""
    site = stack.enter_context(serving({}, OddSite))
    assert isinstance(site, OddSite)
    cases = {
        f"odd-{way}-{number}": placed
        for number, placed in enumerate(site.place(CASES[way], "127.42"))
    }
    witness.feed(*(_request(crawlid, placed, way) for crawlid, placed in cases.items()))
    return cases


def _request(crawlid: str, placed: Placed, way: str) -> dict[str, Any]:
    spider = f"odd-{way}"
    return {
        "url": placed.seed_url,
        "appid": "e2e",
        "crawlid": crawlid,
        "spiderid": placed.case.spider or spider,
        "maxdepth": 2,
        "attrs": {"pages_spider": spider},
        **placed.case.request,
    }


@contextmanager
def _crawlers(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Run a crawler for each way, and one for sitemaps."""
    with ExitStack() as stack:
        for number, name in enumerate((*CASES, "sitemaps")):
            env = {
                **cluster.environment,
                **ENV,
                "CRAWLSTREAM_METRICS_OFFSET": str(20 + number),
                "CRAWLSTREAM_FETCH": name if name in CASES else "lane",
            }
            crawler = ForkedCrawler(f"odd-{name}", env, folder / f"{name}.log")
            stack.enter_context(crawler.running())
        yield


def _judge(placed: Placed, witness: Witness, crawlid: str) -> dict[str, Any]:
    """Return what of a case is not as it must be."""
    case, asked = placed.case, placed.asked()
    failures = witness.events(crawlid, "page_failed")
    ending = witness.ending(crawlid) or {"event": "", "counters": {"filtered": {}}}
    seen: dict[str, Any] = {
        "asked": Counter(asked),
        "first": asked[:1],
        "cookies": {
            label: visit.headers["cookie"]
            for label, visit in zip(asked, placed.visits(), strict=True)
            if "cookie" in visit.headers
        },
        "agents": {visit.headers.get("user-agent") for visit in placed.visits()},
        "told of, and not asked for": {
            placed.label(record["url"]) for record in witness.results(crawlid)
        }.difference(asked),
        "failed": {placed.label(each["url"]): each["reason"] for each in failures},
        "filtered": ending["counters"]["filtered"],
        "ending": ending["event"],
    }
    right = {
        "asked": placed.to_be_asked(),
        "first": [label for label in asked if label.endswith(ROBOTS)][:1],
        "cookies": case.cookies,
        "agents": {robots.AGENT},
        "told of, and not asked for": set(),
        "failed": case.failed,
        "filtered": case.filtered,
        "ending": "crawl_finished",
    }
    return {name: (seen[name], right[name]) for name in right if seen[name] != right[name]}


def _report(wrong: dict[str, dict[str, Any]]) -> str:
    lines = []
    for name, found in wrong.items():
        lines.append(f"\n{name}")
        for what, (seen, right) in found.items():
            if isinstance(seen, Counter):
                lines.append(f"  asked, and should not be: {list((seen - right).elements())}")
                lines.append(f"  not asked: {list((right - seen).elements())}")
            else:
                lines.append(f"  {what}: {seen}, should be {right}")
    return "\n".join(lines)
