"""Webs for tests: each on hosts of its own, so that no test meets another's rules or robots."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawlstream_cli.demo.access_log import AccessLog, LoggedRequest, count_fetches, read_visits
from crawlstream_cli.demo.site import Site
from crawlstream_cli.demo.truth import FollowRules, Truth, expected_pages
from crawlstream_cli.demo.web import Web
from crawlstream_cli.local.ports import free_block

_blocks = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ServedWeb:
    """A web that is being served, its truth, and its referee."""

    web: Web
    site: Site
    log: Path

    def truth(self, **rules: Any) -> Truth:
        """Return the pages that a crawl from `/` must bring; fields as in :class:`FollowRules`."""
        return expected_pages(self.web, FollowRules(**rules))

    def visits(self) -> list[LoggedRequest]:
        """Every request so far."""
        self.site.log.flush()
        return read_visits(self.log)

    def fetches(self) -> Counter[str]:
        """How often each URL was asked for so far, robots.txt left out."""
        return count_fetches(self.visits(), self.web.port)

    def url(self, path: str, host: int = 0) -> str:
        """The URL of a path on one of the hosts."""
        return self.web.origin(self.web.hosts[host]) + path


Serve = Callable[..., Any]
"""``async with serve(pages=…, hosts=…) as served``: fields as of :class:`Web`."""


def serving_in(folder: Path) -> Serve:
    """A way to serve webs whose logs are kept in ``folder``."""

    @asynccontextmanager
    async def serve(**shape: Any) -> AsyncIterator[ServedWeb]:
        number = next(_blocks)
        first_host = f"127.{1 + number // 250}.{number % 250}.1"
        web = Web(free_block(1), **{"first_host": first_host, "slow_s": 0.3, **shape})
        log = folder / f"visits-{number}.jsonl"
        site = Site(web, AccessLog(log))
        await site.start()
        try:
            yield ServedWeb(web, site, log)
        finally:
            await site.stop()

    return serve
