"""``/v2/indexnow``: sites announce pages that have changed, by the protocol of indexnow.org.

Senders have no API key: they prove by a file of their site that they may speak for it. Pages that a
memory knows are then visited soon; other pages are left alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from crawlstream.bus.records import Out
from crawlstream.errors import InvalidUrl
from crawlstream.model.url import host_of, link_url, origin_of
from crawlstream.wire import events
from rest_service.http.access import Client, Role
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.openapi import later
from rest_service.http.parameters import StrictRoute
from rest_service.http.peers import peer_of
from rest_service.metrics import ANNOUNCED
from rest_service.service import Service, TheClient, TheService
from rest_service.v2.scrapes.key_checks import IndexNowKey, is_proven, prove

router = APIRouter(prefix="/v2", tags=["indexnow"], route_class=StrictRoute)

MOST_URLS = 10_000
_OF_AN_EVENT = 200
"""URLs of one event."""
_LATER = "The key is being checked; the pages are announced if it is right."

Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{8,128}$")]
Location = Annotated[str, Field(max_length=2_048)] | None


class Announcement(BaseModel):
    """Pages of a host that have changed, are new, or are gone."""

    model_config = ConfigDict(extra="ignore", strict=True)

    host: Annotated[str, Field(min_length=1, max_length=255)]
    key: Key
    keyLocation: Location = None  # noqa: N815  the protocol's name
    """URL of the file that has the key, on the host; default: ``/KEY.txt``."""
    urlList: Annotated[list[str], Field(min_length=1, max_length=MOST_URLS)]  # noqa: N815


@router.post("/indexnow", summary="Announce changed pages", responses=later(_LATER))
async def announce(announcement: Announcement, service: TheService, client: TheClient) -> Response:
    """Have pages visited soon that a memory knows, if the site has proven its key.

    200: they will be. 202: they will be if the key, which is being checked, is right. 403: it is
    wrong.
    """
    return await _announce(announcement, service, client)


@router.get("/indexnow", summary="Announce a changed page", responses=later(_LATER))
async def announce_one(
    service: TheService,
    client: TheClient,
    *,
    url: Annotated[str, Query(max_length=2_048)],
    key: Annotated[str, Query(pattern=r"^[A-Za-z0-9-]{8,128}$")],
    keyLocation: Annotated[str | None, Query(max_length=2_048)] = None,  # noqa: N803  as above
) -> Response:
    """Announce one page, as ``POST`` does."""
    try:
        host = host_of(link_url(url))
    except InvalidUrl as error:
        raise _invalid(f"url: {error}") from error
    told = Announcement(host=host, key=key, keyLocation=keyLocation, urlList=[url])
    return await _announce(told, service, client)


async def _announce(told: Announcement, service: Service, client: Client) -> Response:
    appid, *domains = service.settings.indexnow or ("",)
    if not appid:
        raise RequestRefused(404, "IndexNow is off: set CRAWLSTREAM_INDEXNOW.", code="indexnow_off")
    if not service.announcers.admit(peer_of(client.address)):
        raise RequestRefused(
            429, "Too many announcements: 10 a minute.", code="too_many_requests", retry_after_s=6
        )
    outcome = "refused"
    try:
        # Ten thousand URLs take 0.2 s.
        urls, proof = await asyncio.to_thread(_checked, told, domains)
        sender = Client("indexnow", Role.SUBMIT, client.address, frozenset({appid}), scrapes=5)
        handling = _publish_if_right(service, proof, urls, sender)
        is_right = await service.key_checks.answer(handling, urls)
        outcome = {None: "late", True: "accepted", False: "refused"}[is_right]
    finally:
        ANNOUNCED.labels(outcome).inc()
    if is_right is None:
        return success({"state": "checking"}, status=202)
    if not is_right:
        raise RequestRefused(
            403, f"{proof.location} must be a file that contains only the key.", code="wrong_key"
        )
    return success({"accepted": len(urls)})


async def _publish_if_right(
    service: Service, proof: IndexNowKey, urls: Sequence[str], sender: Client
) -> bool:
    """Publish an announcement if its key is right; return whether it is."""
    is_right = await is_proven(service, proof) or await service.key_checks.check(
        proof, lambda: prove(service, proof, sender)
    )
    if is_right:
        (appid,) = sender.appids
        await _publish(service, appid, proof, urls)
    return is_right


def _checked(told: Announcement, domains: Sequence[str]) -> tuple[Sequence[str], IndexNowKey]:
    """Return the URLs and the proof of a valid announcement; RequestRefused (422)."""
    try:
        proof = _proof_of(told)
        if proof.domain not in domains:
            raise _invalid(f"{proof.domain} is not in CRAWLSTREAM_INDEXNOW", "unknown_site")
        urls = [link_url(url) for url in told.urlList]
    except InvalidUrl as error:
        raise _invalid(str(error)) from error
    folder = proof.location[: proof.location.rindex("/") + 1]
    for url in urls:
        if not url.startswith(folder):
            raise _invalid(f"{url[:200]} is not below {folder}, the folder of the key")
    return urls, proof


def _proof_of(told: Announcement) -> IndexNowKey:
    """Return the key and its location, on the host and by the scheme of the first URL; as above."""
    origin = origin_of(link_url(told.urlList[0]))
    location = link_url(told.keyLocation or f"{origin}/{told.key}.txt")
    if host_of(location) != told.host.lower() or origin_of(location) != origin:
        raise _invalid("keyLocation must have the host and the scheme of the URLs")
    return IndexNowKey(location, told.key)


def _invalid(problem: str, code: str = "invalid") -> RequestRefused:
    return RequestRefused(422, f"Nothing was announced: {problem}.", code=code)


async def _publish(service: Service, appid: str, proof: IndexNowKey, urls: Sequence[str]) -> None:
    """Return when Kafka has the events."""
    at, topic, site = int(time.time()), service.topics.events, proof.domain
    records = [
        Out(topic, events.encode_announced(appid, site, urls[n : n + _OF_AN_EVENT], at), key)
        for n in range(0, len(urls), _OF_AN_EVENT)
        for key in [f"{site}:{at}:{n}:{proof.name[:8]}".encode()]
    ]
    await service.send(records)
