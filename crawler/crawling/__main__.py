"""``python -m crawling SPIDER``: one crawler process, until SIGTERM.

It waits for Redis and Kafka, crawls what the frontier grants to this spider type, and on TERM
leases nothing more, finishes what is under way and gives back the rest. A second TERM ends it at
once; what it held is then given to others after its deadline.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings

from crawling.publish.bodies import BodyStore
from crawlstream.boot import log
from crawlstream.boot.misspelt import misspelt
from crawlstream.errors import ConfigError


def main(argv: list[str] | None = None) -> int:
    """Run one crawler; answers the exit code."""
    for sentence in misspelt(os.environ):
        sys.stderr.write(f"crawler: {sentence}\n")
    parser = argparse.ArgumentParser(prog="crawling", description=__doc__)
    parser.add_argument("spider", nargs="?", default="link", help="name of the spider (link)")
    name = parser.parse_args(argv).spider
    try:
        from crawling import settings  # noqa: PLC0415  reads the environment

        if settings.CRAWLSTREAM.body_store:
            BodyStore.at(settings.CRAWLSTREAM.body_store)
    except ConfigError as error:
        return _refuse(str(error))
    if settings.CRAWLSTREAM.SCHEDULER_IP_ENABLED and not settings.CRAWLSTREAM.egress_group:
        return _refuse("SCHEDULER_IP_ENABLED needs CRAWLSTREAM_EGRESS_GROUP in each crawler")
    log.configure(settings.CRAWLSTREAM, f"crawler-{name}")
    return _crawl(name)


def _crawl(name: str) -> int:
    settings = Settings()
    settings.setmodule("crawling.settings", priority="project")
    try:
        process = AsyncCrawlerProcess(settings)
    except ImportError as error:
        if error.name is None or not _is_of_user(error.name):
            raise
        return _refuse(f"CRAWLSTREAM_SPIDER_MODULES: {error}; is its directory on PYTHONPATH?")
    from crawling.runtime.worker import Worker  # noqa: PLC0415  its imports need the reactor installed

    logging.getLogger("scrapy").setLevel(logging.WARNING)
    try:
        crawler = process.create_crawler(name)
    except KeyError:
        known = ", ".join(sorted(process.spider_loader.list()))
        return _refuse(f"unknown spider {name!r}; known spiders: {known}")
    process.crawl(crawler)
    process.start()
    worker = crawler.get_extension(Worker)
    if worker and worker.refusal:
        return _refuse(worker.refusal)
    return int(process.bootstrap_failed or worker is None or worker.is_broken)


def _is_of_user(module: str) -> bool:
    """Whether a module that was not found is what the variable names, or a package around it."""
    named = os.environ.get("CRAWLSTREAM_SPIDER_MODULES", "").split(",")
    return any(f"{each}.".startswith(f"{module}.") for each in named)


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"crawler: {sentence}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
