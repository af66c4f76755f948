"""One crawler of the cluster beside plain ``scrapy crawl``, on the same web in the same minute.

Both follow every link and deliver every page, the cluster's to Kafka. Plain Scrapy runs with the
defaults of 2.19, its log at WARNING like the cluster's, and keeps none of its items. CPU time is
that of the crawler's process, and of Redis for the cluster's.
"""

from __future__ import annotations

from lib.crawlers import Web, seeds, stage
from lib.harness import Benchmark, Figures, Line
from lib.processes import SETTINGS, plain_scrapy
from redis.asyncio import Redis

PLAIN_SPIDER = """
import sys

import scrapy
from scrapy.linkextractors import LinkExtractor


class Plain(scrapy.Spider):
    name = "plain"
    links = LinkExtractor()

    def parse(self, response):
        links = self.links.extract_links(response)
        yield {"url": response.url, "body": response.text, "links": [each.url for each in links]}
        for each in links:
            yield scrapy.Request(each.url)
"""
PLAIN_SETTINGS = {"ROBOTSTXT_OBEY": "False", "LOG_LEVEL": "WARNING"}


async def compare(redis: Redis, pages: Web) -> Figures:
    """One turn of each crawler."""
    async with stage(redis, pages) as on:
        plain = await on.speed(
            plain_scrapy(PLAIN_SPIDER, seeds(on.port), PLAIN_SETTINGS, folder=on.folder)
        )
        ours = await on.cluster()
    ours_ms = ours.cpu_ms["crawler"] + ours.cpu_ms["redis"]
    return {
        "times_plain_scrapy": ours.pages_per_s / plain.pages_per_s,
        "cpu_of_plain_scrapy": ours_ms / plain.cpu_ms["crawler"],
        "pages_per_s": ours.pages_per_s,
        "plain_pages_per_s": plain.pages_per_s,
        "cpu_ms_a_page": ours_ms,
        "plain_cpu_ms_a_page": plain.cpu_ms["crawler"],
    }


def benchmark(name: str, about: str, pages: Web, **lines: Line) -> Benchmark:
    """A benchmark of both crawlers, judged by some of its figures."""
    return Benchmark(
        name=name,
        about=f"{about} Settings: cluster {SETTINGS}, plain Scrapy {PLAIN_SETTINGS}.",
        measure=lambda redis: compare(redis, pages),
        lines=lines,
        repetitions=2,
    )


if __name__ == "__main__":
    benchmark(
        "crawl",
        "One worker beside plain Scrapy: 1 000 hosts, 20 links, 1 KB.",
        Web(),
        times_plain_scrapy=Line(floor=2.5, goal=5, unit="times", more=True),
    ).main()
