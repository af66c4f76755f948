"""``python -m crawling SPIDER``: one crawler process, until SIGTERM.

``python -m crawling --check SPIDER…`` only checks that it could run them, and reports an error.

The crawler waits for Redis and Kafka and fetches the pages that the frontier grants to this spider
type. On TERM it leases no more pages, finishes the downloads and releases the other pages. A second
TERM ends it at once; other workers get its pages after its deadline.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import TYPE_CHECKING

# First of all: it looks three times through all modules and callers that there are by then, which
# would take a third of the CPU of a start.
import scrapy.core.downloader.handlers.http11  # noqa: F401
from scrapy.crawler import AsyncCrawlerProcess

from crawling.project import settings_of
from crawling.render.chromium import program_of
from crawling.tls.targets import require
from crawlstream.boot import log
from crawlstream.boot.misspelt import misspelt
from crawlstream.errors import ConfigError
from crawlstream.signing.keys import load_keys
from crawlstream.store.bodies import BodyStore
from crawlstream_traces.sender import check_collector

if TYPE_CHECKING:
    from scrapy.settings import Settings


def main(argv: list[str] | None = None) -> int:
    """Run one crawler; return the exit code."""
    for sentence in misspelt(os.environ):
        sys.stderr.write(f"crawler: {sentence}\n")
    parser = argparse.ArgumentParser(prog="crawling", description=__doc__)
    parser.add_argument("spider", nargs="?", default="link", help="name of the spider (link)")
    parser.add_argument("--check", nargs="+", default=(), metavar="SPIDER", help="only check names")
    asked = parser.parse_args(argv)
    name = asked.spider
    try:
        from crawling import settings  # noqa: PLC0415  reads the environment

        if settings.CRAWLSTREAM.body_store:
            BodyStore.at(settings.CRAWLSTREAM.body_store)
        load_keys(settings.CRAWLSTREAM.signing_keys)
        require(settings.CRAWLSTREAM.tls_profiles)
        check_collector(settings.CRAWLSTREAM.traces)
        if settings.CRAWLSTREAM.render:
            program_of(settings.CRAWLSTREAM)
        found = [settings_of(each) for each in asked.check or (name,)]
    except ConfigError as error:
        return _refuse(str(error))
    if settings.CRAWLSTREAM.scheduler_ip_enabled and not settings.CRAWLSTREAM.egress_group:
        return _refuse("SCHEDULER_IP_ENABLED needs CRAWLSTREAM_EGRESS_GROUP in each crawler")
    if asked.check:
        return 0
    log.configure(settings.CRAWLSTREAM, f"crawler-{name}")
    return _crawl(name, found[0])


def _crawl(name: str, settings: Settings) -> int:
    process = AsyncCrawlerProcess(settings)
    from crawling.runtime.worker import Worker  # noqa: PLC0415  its imports need the reactor installed

    logging.getLogger("scrapy").setLevel(logging.WARNING)
    crawler = process.create_crawler(name)
    process.crawl(crawler)
    process.start()
    worker = crawler.get_extension(Worker)
    if worker and worker.refusal:
        return _refuse(worker.refusal)
    return int(process.bootstrap_failed or worker is None or worker.is_broken)


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"crawler: {sentence}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
