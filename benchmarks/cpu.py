"""CPU time a page, of worker and Redis, beside plain Scrapy's."""

from __future__ import annotations

from crawl import benchmark
from lib.crawlers import Web
from lib.harness import Line

if __name__ == "__main__":
    benchmark(
        "cpu",
        "CPU time a page of worker and Redis beside plain Scrapy's: 20 links, 1 KB.",
        Web(),
        cpu_of_plain_scrapy=Line(floor=0.45, goal=0.25, unit=""),
    ).main()
