"""Scrapy with scrapy-playwright, measured from outside: ``python FILE BROWSER URL…``.

Runs in an environment of its own, which has scrapy-playwright; knows nothing of crawlstream. It
fetches ``WARM`` pages, says ``warm`` and waits for a line on its input, fetches the others, says
``done`` and waits again.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import DontCloseSpider

AT_ONCE, WARM = 4, 8
PARAGRAPHS = 1200


def _is_not_needed(request: Any) -> bool:
    return bool(request.resource_type in {"image", "media", "font"})


class Pages(scrapy.Spider):
    """Fetches pages that scripts make."""

    name = "pages"

    def __init__(self, urls: list[str]) -> None:
        super().__init__()
        self._urls = urls
        self._came = 0
        self._phases = iter(("warm", "done"))

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Pages:
        """With what happens when nothing is left to do."""
        spider: Pages = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """The first pages, with which the browser starts."""
        for url in self._urls[:WARM]:
            yield self._request(url)

    def _request(self, url: str) -> scrapy.Request:
        return scrapy.Request(url, meta={"playwright": True}, dont_filter=True)

    def parse(self, response: Any) -> None:
        """Look whether its scripts have run."""
        if response.text.count("<p>") < PARAGRAPHS:
            raise SystemExit("the scripts of a page have not run")
        self._came += 1

    def idle(self) -> None:
        """The pages so far have come: wait for who measures, then go on."""
        phase = next(self._phases, None)
        if phase is None:
            return
        print(phase, self._came, flush=True)
        sys.stdin.readline()
        if phase == "warm":
            for url in self._urls[WARM:]:
                self.crawler.engine.crawl(self._request(url))
            raise DontCloseSpider


def main() -> None:
    """Crawl as scrapy-playwright's own documentation has it, without what no text needs."""
    browser, *urls = sys.argv[1:]
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    process = CrawlerProcess(
        {
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
            "CONCURRENT_REQUESTS": AT_ONCE,
            "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
            "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": AT_ONCE,
            "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": browser, "args": ["--no-sandbox"]},
            "PLAYWRIGHT_ABORT_REQUEST": _is_not_needed,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(Pages, urls=urls)
    process.start()


if __name__ == "__main__":
    main()
