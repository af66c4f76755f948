"""``/v2``: purses, which pay for pages: limits, sums by day, and what an operator decides."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from crawlstream.errors import InvalidUrl
from crawlstream.model.url import domain_key, host_name, origin_of, seed_url
from crawlstream.model.words.price import price_in
from crawlstream_frontier.egress.purse import Purse
from crawlstream_frontier.egress.purse_report import latest, purse_json, report_json
from crawlstream_frontier.egress.purses import OK, Purses
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.parameters import StrictRoute
from rest_service.service import Service, TheClient, TheService

router = APIRouter(prefix="/v2", tags=["purses"], route_class=StrictRoute)

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,40}$", examples=["news"])]
Amount = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$", examples=["5.00"])]
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=1000)]

_CONFLICTS = {
    "other_currency": "The purse has spent another currency: remove it first.",
    "too_many": "There are 100 purses already: remove one first.",
}


class PurseLimits(BaseModel):
    """Limits of a purse; those that are absent are none."""

    model_config = ConfigDict(extra="forbid", strict=True)

    currency: str = Field(pattern=r"^[A-Z]{3}$", examples=["USD"])
    day: Amount
    total: Amount | None = None
    max_price: Amount | None = None
    apps: Names = Field(default_factory=list, examples=[["shop"]])
    domains: Names = Field(default_factory=list, examples=[["example.com"]])


class ForgivenSite(BaseModel):
    """A site that has charged more than its price."""

    model_config = ConfigDict(extra="forbid", strict=True)

    origin: str = Field(min_length=1, max_length=2083, examples=["https://shop.example.com"])


@router.get("/purses", summary="List purses")
async def purses(service: TheService) -> Response:
    """All purses in order of their names: limits, and what was spent of them."""
    return success([purse_json(state) for state in await _purses(service).all()])


@router.get("/purses/{name}", summary="One purse, by day")
async def one_purse(
    service: TheService, name: Name, days: Annotated[int, Query(ge=1, le=100)] = 7
) -> Response:
    """A purse with its latest days, charges of sites in these, open payments, sites not paid."""
    state = await _purses(service).state(name)
    if state is None:
        raise _unknown()
    details = await _purses(service).details(name, latest(days))
    return success(report_json(state, details, days))


@router.put("/purses/{name}", summary="Create a purse, or replace its limits")
async def put_purse(
    service: TheService, client: TheClient, name: Name, limits: PurseLimits
) -> Response:
    """Set all limits of a purse; what it has spent still counts. ``data`` is its new state."""
    with audited(client, "set-purse", purse=name, **limits.model_dump(include={"day", "total"})):
        why = await _purses(service).put(_purse_of(name, limits))
        if why != OK:
            raise RequestRefused(409, _CONFLICTS[why], code=why)
    return await _shown(service, name)


@router.delete("/purses/{name}", summary="Remove a purse")
async def remove_purse(service: TheService, client: TheClient, name: Name) -> Response:
    """Remove a purse with its sums; pages of its crawls are no longer paid."""
    with audited(client, "remove-purse", purse=name):
        if not await _purses(service).remove(name):
            raise _unknown()
    return success({"removed": name})


@router.post("/purses/{name}/adopt", summary="Let a purse pay again")
async def adopt_purse(service: TheService, client: TheClient, name: Name) -> Response:
    """Open a purse after a restart of Redis, and trust all sites again; ``data`` is its state."""
    with audited(client, "adopt-purse", purse=name):
        if not await _purses(service).adopt(name):
            raise _unknown()
    return await _shown(service, name)


@router.post("/purses/{name}/forgive", summary="Pay a site again")
async def forgive_site(
    service: TheService, client: TheClient, name: Name, site: ForgivenSite
) -> Response:
    """Trust a site again that has charged more than its price; ``data`` is the purse's state."""
    try:
        origin = origin_of(seed_url(site.origin))
    except InvalidUrl as error:
        raise RequestRefused(422, f"{error}.", code="invalid") from None
    with audited(client, "forgive-site", purse=name, origin=origin):
        why = await _purses(service).forgive(name, origin)
        if why == "no_purse":
            raise _unknown()
        if why != OK:
            sentence = "This purse already pays this site: it has not overcharged."
            raise RequestRefused(404, sentence, code="unknown_origin")
    return await _shown(service, name)


def _purses(service: Service) -> Purses:
    return service.frontier.root.purses


async def _shown(service: Service, name: str) -> Response:
    state = await _purses(service).state(name)
    if state is None:
        raise _unknown()
    return success(purse_json(state))


def _purse_of(name: str, limits: PurseLimits) -> Purse:
    try:
        domains = [domain_key(host_name(each)) for each in limits.domains]
    except InvalidUrl as error:
        raise RequestRefused(422, f"{error}.", code="invalid") from None

    def millionths(amount: str) -> int:
        price = price_in(f"{limits.currency} {amount}")
        assert price is not None
        return price.millionths

    return Purse(
        name=name,
        currency=limits.currency,
        day=millionths(limits.day),
        total=None if limits.total is None else millionths(limits.total),
        max_price=None if limits.max_price is None else millionths(limits.max_price),
        apps=limits.apps,
        domains=domains,
    )


def _unknown() -> RequestRefused:
    return RequestRefused(404, "No such purse found.", code="unknown_purse")
