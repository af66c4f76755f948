"""Compare one crawler of the cluster with plain ``scrapy crawl`` on the same webs in turns.

Both follow every link and deliver every page, the cluster's to Kafka. Plain Scrapy runs with the
defaults of 2.19, its log at WARNING like the cluster's, and keeps none of its items. They take
turns; pages are counted by the site. The webs: the synthetic one, whose links are all alike; a
mixed one; and a real documentation tree, served by nginx as twenty sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lib.crawlers import Speed, Stage, stage
from lib.harness import Benchmark, Figures, Line
from lib.processes import SETTINGS, plain_scrapy
from lib.webs import Web, find_docs, find_nginx, serving
from redis.asyncio import Redis

PLAIN_SPIDER = """
import sys

import scrapy
from scrapy.linkextractors import LinkExtractor


class Plain(scrapy.Spider):
    name = "plain"
    hosts = {hosts}
    links = LinkExtractor(allow_domains=hosts or ())

    def parse(self, response):
        links = []
        if isinstance(response, scrapy.http.HtmlResponse):
            links = self.links.extract_links(response)
        text = getattr(response, "text", "")
        yield {{"url": response.url, "body": text, "links": [each.url for each in links]}}
        for each in links:
            yield scrapy.Request(each.url)
"""
PLAIN_SETTINGS = {"ROBOTSTXT_OBEY": "False", "LOG_LEVEL": "WARNING"}
MEASURED_S = 6

SYNTHETIC, MIXED, REAL = Web(), Web(is_mixed=True, size=4096), Web(is_real=True)


async def plain_speed(on: Stage) -> Speed:
    """Measure plain Scrapy once."""
    # With a port, as its own extractor has it.
    hosts = on.web.hosts and [url.split("/")[2] for url in on.web.seeds]
    spider = PLAIN_SPIDER.format(hosts=hosts)
    return await on.speed(plain_scrapy(spider, on.web.seeds, PLAIN_SETTINGS, folder=on.folder))


async def compare(on: Stage) -> Figures:
    """Measure each crawler once."""
    plain = await plain_speed(on)
    ours = await on.cluster()
    ours_ms = ours.cpu_ms["crawler"] + ours.cpu_ms["redis"]
    # They take the pages of a real site in different orders, and its pages differ in size.
    sizes: dict[str, float] = {}
    if plain.bytes_per_s:
        sizes = {
            "bytes_times_plain_scrapy": ours.bytes_per_s / plain.bytes_per_s,
            "kb_a_page": ours.bytes_per_s / ours.pages_per_s / 1000,
            "plain_kb_a_page": plain.bytes_per_s / plain.pages_per_s / 1000,
        }
    return sizes | {
        "times_plain_scrapy": ours.pages_per_s / plain.pages_per_s,
        "cpu_of_plain_scrapy": ours_ms / plain.cpu_ms["crawler"],
        "pages_per_s": ours.pages_per_s,
        "plain_pages_per_s": plain.pages_per_s,
        "cpu_ms_a_page": ours_ms,
        "plain_cpu_ms_a_page": plain.cpu_ms["crawler"],
    }


async def compare_all(redis: Redis, webs: Mapping[str, Web]) -> Figures:
    """Measure each crawler once on each web; return the figures of each."""
    if any(web.is_real for web in webs.values()):
        find_nginx()
        find_docs()
    figures: dict[str, float] = {}
    async with stage(redis, SYNTHETIC, measured_s=MEASURED_S) as on:
        for name, web in webs.items():
            async with serving(web, on.folder) as served_web:
                found = await compare(replace(on, web=served_web))
            figures |= {f"{name}_{figure}": value for figure, value in found.items()}
    return figures


def benchmark(name: str, about: str, webs: Mapping[str, Web], **lines: Line) -> Benchmark:
    """A benchmark of both crawlers, judged by some of its figures."""
    return Benchmark(
        name=name,
        about=f"{about} Settings: cluster {SETTINGS}, plain Scrapy {PLAIN_SETTINGS}.",
        measure=lambda redis: compare_all(redis, webs),
        lines=lines,
        repetitions=2,
    )


if __name__ == "__main__":
    benchmark(
        "crawl",
        "One worker beside plain Scrapy: synthetic web (20 links, 1 KB), mixed web (20, 4 KB),"
        " documentation tree behind nginx, whose pages differ in size: compare its bytes.",
        {"synthetic": SYNTHETIC, "mixed": MIXED, "real": REAL},
        synthetic_times_plain_scrapy=Line(floor=5, goal=8, unit="times", more=True),
        mixed_times_plain_scrapy=Line(floor=4, goal=7, unit="times", more=True),
        real_times_plain_scrapy=Line(floor=4, goal=7, unit="times", more=True),
    ).main()
