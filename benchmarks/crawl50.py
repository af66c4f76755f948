"""One worker beside plain Scrapy on heavier pages: 50 links, 20 KB."""

from __future__ import annotations

from crawl import benchmark
from lib.crawlers import Web
from lib.harness import Line

if __name__ == "__main__":
    benchmark(
        "crawl50",
        "One worker beside plain Scrapy: 1 000 hosts, 50 links, 20 KB.",
        Web(links=50, size=20 * 1024),
        times_plain_scrapy=Line(floor=2.5, goal=6, unit="times", more=True),
    ).main()
