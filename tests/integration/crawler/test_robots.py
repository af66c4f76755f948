"""A crawler process that is handed robots.txt files made to keep it busy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

LONGEST_STALL_S = 1.0
"""Seconds of CPU. Heartbeats leave every 5 s, and a grant is good for half a second."""
SLOWLY_S = 300
"""However busy the machine is."""

BEATS = """
import asyncio, os, time
from crawling.runtime.worker import Worker

opened = Worker._opened

def now():
    return time.monotonic(), time.process_time()

async def beat():
    longest, last = 0, now()
    while True:
        await asyncio.sleep(0.005)
        last, before = now(), last
        # Others' work on this machine holds up the process, and is no turn of ours.
        turn = min(one - other for one, other in zip(last, before))
        if turn > longest:
            longest = turn
            with open(os.environ["LONGEST"], "w") as file:
                print(longest, file=file)

async def watched(self, spider):
    await opened(self, spider)
    self.beats = asyncio.ensure_future(beat())

Worker._opened = watched
"""
"""Notes in the crawler how long the longest turn of its event loop has taken."""


def filled(head: str, line: Callable[[int], str]) -> Answer:
    """A robots.txt of nearly 500 KiB."""
    lines = [head]
    size = len(head)
    while size < 499 * 1024:
        lines.append(line(len(lines)))
        size += len(lines[-1])
    return Answer("".join(lines).encode())


HARD = f"/*{'a' * 90}"
HOSTILE = {
    "127.5.0.1": filled("", lambda n: f"User-agent: {n}\n" if n < 5000 else f"Disallow: /{n}$\n"),
    "127.5.0.2": filled("User-agent: *\nDisallow: /private\n", lambda n: f"Disallow: /{n}$\n"),
    "127.5.0.3": Answer(
        b"User-agent: *\nDisallow: /private\n"
        + b"".join(b"Disallow: %b%05dbaa\n" % (HARD.encode(), n) for n in range(1900))
    ),
}
"""Millions of rules in few lines; many; and some that a URL is looked through for, again and
again."""


async def test_no_robots_txt_keeps_the_worker_from_its_other_work(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """Each is obeyed, or forbids all if it cannot be; the loop turns on, and others are served."""
    (tmp_path / "beats.py").write_text(BEATS)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    longest = tmp_path / "longest"
    watched = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "beats", "LONGEST": str(longest)}
    pages = [f"/{'a' * 1500}/{number}" for number in range(3)]
    site.pages |= dict.fromkeys((*pages, "/private"), page())
    site.pages |= {f"{host}/robots.txt": answer for host, answer in HOSTILE.items()}
    site.pages |= {"/robots.txt": Answer(b"User-agent: *\nDisallow: /private\n")}
    hosts = [*HOSTILE, *(f"127.6.0.{number}" for number in range(1, 9))]
    seeds = [site.url(path, host) for path in (*pages, "/private") for host in hosts]
    with cluster.worker(ROBOTSTXT_OBEY="true", **watched):
        crawl = await cluster.feed(*seeds)
        state = await cluster.end_of(crawl, timeout_s=SLOWLY_S)
    forbidden = {site.url("/private", host) for host in hosts}
    forbidden |= {site.url(path, "127.5.0.1") for path in pages}
    assert cluster.failures() == dict.fromkeys(forbidden, "robots")
    assert state.done == len(seeds) - len(forbidden)
    assert float(longest.read_text()) < LONGEST_STALL_S
