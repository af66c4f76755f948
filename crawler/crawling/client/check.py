"""Each proxy of a pool tried once, by the client that crawls: ``python -m crawling.client.check``.

The wish is the argument, as JSON; the pool comes in on standard input, packed; a line of JSON for
each proxy goes out.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from scrapy import Request

from crawling.client.curl_request import place_of
from crawling.client.http_client import HttpClient
from crawling.egress.route import Route
from crawling.failures import ProxyTrouble, reason_of
from crawling.lease.leases import Leases
from crawling.net.address_guard import GuardedResolver
from crawling.page.scrapy_request import PAGE
from crawlstream.boot.addresses import Guard, Interfaces
from crawlstream.boot.settings import load_settings
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.egress.pools import Pool, Proxy
from crawlstream.model.url import domain_key
from crawlstream.wire import jsontext
from crawlstream_frontier.codec.pools import unpack_pools

_MOST_BYTES = 4 * 1024 * 1024
_CONTACT_EVERY_S = 0.2


class Check:
    """Request one page through one proxy after the other."""

    def __init__(self, wish: Mapping[str, Any], pool: Pool) -> None:
        settings = load_settings()
        guard = Guard(settings.allow_networks, settings.deny_networks, Interfaces())
        self._wish = wish
        self._pool = pool
        self._agent = settings.user_agent
        self._leases = Leases(len(pool.proxies) or 1, lambda: None)
        self._client = HttpClient(
            self._leases,
            GuardedResolver(guard, None),
            timeout_s=wish["timeout_s"],
            most_bytes=_MOST_BYTES,
            verifies=True,
        )
        self._room = asyncio.Semaphore(wish["at_once"])

    async def run(self) -> None:
        """Write a verdict for each proxy, as it comes."""
        try:
            async with self._granted():
                for verdict in asyncio.as_completed(map(self._verdict, self._pool.proxies)):
                    sys.stdout.write(jsontext.dumps(await verdict).decode() + "\n")
                    sys.stdout.flush()
        finally:
            self._client.close()

    @asynccontextmanager
    async def _granted(self) -> AsyncIterator[None]:
        """Always grant: a check runs without a crawl, so permission to send is always fresh."""

        async def speak() -> None:
            while True:
                self._leases.note_answer(0, time.monotonic(), 1)
                await asyncio.sleep(_CONTACT_EVERY_S)

        speaking = asyncio.create_task(speak())
        try:
            yield
        finally:
            speaking.cancel()

    async def _verdict(self, proxy: Proxy) -> dict[str, Any]:
        async with self._room:
            began = time.monotonic()
            try:
                result = await self._try(proxy)
            except ProxyTrouble as error:
                result = str(error)
            except KeyError as error:
                result = f"the variable {error} is not set"
            except Exception as error:  # noqa: BLE001  any is a verdict
                result = reason_of(error)
            taken_ms = int((time.monotonic() - began) * 1000)
        is_ok = result.isdecimal() and int(result) < 400
        return {
            "id": proxy.id,
            "url": proxy.shown,
            "ok": is_ok,
            "result": result,
            "ms": taken_ms,
        }

    async def _try(self, proxy: Proxy) -> str:
        """The status, or what is wrong with the page."""
        url = self._wish["url"]
        lease = Lease(
            token=proxy.id,
            crawl=CrawlKey("check", "check", "check"),
            run=1,
            domain=domain_key(place_of(url)[0]),
            priority=1,
            entry=Entry(url=url),
            profile=Profile(),
            retries=0,
            issued_at=time.monotonic(),
        )
        page = self._leases.admit(lease)
        route = Route(self._pool, proxy, proxy.credentials(os.environ))
        request = Request(url, headers={"User-Agent": self._agent}, meta={PAGE: page})
        response = await self._client.fetch_by(route, request, page)
        expected = self._wish["expect"]
        if expected and expected.encode() not in response.body:
            return f"{response.status}, without the expected text"
        return str(response.status)


def main() -> None:
    """Check what standard input says."""
    wish: Any = jsontext.loads(sys.argv[1].encode())
    (pool,) = unpack_pools(sys.stdin.buffer.read()).pools.values()

    async def check() -> None:
        await Check(wish, pool).run()

    asyncio.run(check())


if __name__ == "__main__":
    try:
        main()
    except CrawlstreamError as error:
        sys.exit(str(error))
