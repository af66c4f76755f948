"""Check keys of IndexNow: a site proves that it is the sender by a file that has the key.

The file is scraped, so it is paid under the rules of its site. A proven key is known for a day. A
domain whose check has failed is not asked again for a day, whatever keys are named meanwhile: so a
forged announcement costs the site one page a day.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, NamedTuple

import structlog
from redis.exceptions import RedisError

from crawlstream.errors import RedisUnavailable
from crawlstream.model.event import PageReply
from crawlstream.model.url import domain_key, host_of
from crawlstream_frontier.scrapes.scrape_names import comes_until
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.service import Service
from rest_service.v2.scrapes.admission import begin
from rest_service.v2.scrapes.page_records import page_in, read_record, record_bytes
from rest_service.v2.scrapes.scrape_order import ScrapeOrder

DAY_S = 86_400
_SOON_S = 3_600
"""Seconds until the key file of a site that did not answer may be requested again."""
_LONGEST_FILE = 1_024
"""Bytes of a key file."""

log = structlog.get_logger()


class IndexNowKey(NamedTuple):
    """Key of a host, and the URL of the file that has it."""

    location: str
    key: str

    @property
    def domain(self) -> str:
        """Registrable domain of the host."""
        return domain_key(host_of(self.location))

    @property
    def name(self) -> str:
        """Return a name that no other key and location have."""
        return hashlib.blake2b(f"{self.location} {self.key}".encode(), digest_size=16).hexdigest()


async def is_proven(service: Service, proof: IndexNowKey) -> bool:
    """Return whether a key was proven within a day. RedisUnavailable."""
    return bool(await _redis(service.redis.exists(service.keys.indexnow(proof.name))))


async def prove(service: Service, proof: IndexNowKey, client: Client) -> bool:
    """Check a key that is not known; return whether it is right.

    RequestRefused if the domain's check was used (429), or as for a scrape. RedisUnavailable,
    KafkaUnavailable.
    """
    used = service.keys.indexnow(proof.domain)
    # Also if this process dies meanwhile, the site is left alone for as long.
    if not await _redis(service.redis.set(used, "1", nx=True, ex=_SOON_S)):
        raise _refusal(proof, max(await _redis(service.redis.ttl(used)), 1))
    reply = await _reply(service, proof, client, used)
    has_key = None if reply is None else await is_key_file(service, reply, proof, client)
    if has_key is None:
        return False
    log.info("indexnow", domain=proof.domain, outcome="proven" if has_key else "refused")
    if has_key:
        await _redis(service.redis.set(service.keys.indexnow(proof.name), "1", ex=DAY_S))
        await _redis(service.redis.delete(used))
    else:
        await _redis(service.redis.set(used, "1", ex=DAY_S))
    return has_key


def _refusal(proof: IndexNowKey, left_s: int) -> RequestRefused:
    return RequestRefused(
        429,
        f"A key of {proof.domain} was checked already: another one can be checked in {left_s}"
        " seconds.",
        code="key_not_checked",
        retry_after_s=left_s,
    )


async def _reply(
    service: Service, proof: IndexNowKey, client: Client, used: str
) -> PageReply | None:
    """Scrape the key file; None: there is no reply in time."""
    (appid,) = client.appids
    order = ScrapeOrder(url=proof.location, appid=appid, wait=0)
    try:
        flight = await begin(order, service, client)
    except RequestRefused:  # The site was not asked.
        await _redis(service.redis.delete(used))
        raise
    left_s = comes_until(flight.id) + 5 - time.time()
    return await service.pages_replied.wait(flight.id, left_s)


async def is_key_file(
    service: Service, reply: PageReply, proof: IndexNowKey, client: Client
) -> bool | None:
    """Return whether a page is the key file, on its own host; None: there is no page.

    A large page is not read. RequestRefused (503) if too many pages are read at the same time.
    """
    if reply.place is None or reply.body_size is None:
        return None
    if reply.status_code != 200 or reply.body_size > _LONGEST_FILE:
        return False
    async with (
        service.places.of(client.name),
        service.scrape_bytes.of(client.name, record_bytes(reply)),
    ):
        record = await read_record(service, reply)
        page = None if record is None else await page_in(record)
    if page is None:
        return None
    is_own = host_of(page.response_url) == host_of(proof.location)
    return is_own and page.body.decode("utf-8-sig", "replace").strip() == proof.key


async def _redis(call: Any) -> Any:
    try:
        return await call
    except (RedisError, OSError) as error:
        raise RedisUnavailable(str(error)) from error
