"""Compare a worker with plain Scrapy on heavier pages: 50 links, 20 KB."""

from __future__ import annotations

from crawl import benchmark
from lib.harness import Line
from lib.webs import Web

SIZE = 20 * 1024

if __name__ == "__main__":
    benchmark(
        "crawl50",
        "One worker beside plain Scrapy: synthetic and mixed web, 50 links, 20 KB.",
        {"synthetic": Web(links=50, size=SIZE), "mixed": Web(links=50, size=SIZE, is_mixed=True)},
        synthetic_times_plain_scrapy=Line(floor=4, goal=7, unit="times", more=True),
        mixed_times_plain_scrapy=Line(floor=3.5, goal=6, unit="times", more=True),
    ).main()
