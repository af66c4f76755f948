"""``/v2``: pools of proxies, the state of their proxies, and manual bans."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from crawlstream.errors import ConfigError
from crawlstream.model.egress.pools import DIRECT, PoolTable
from crawlstream.model.url import fold_host
from crawlstream_frontier.egress.proxy_states import PoolState, pool_json, pool_named, why
from crawlstream_frontier.proxy_reports import ALL_SITES, ProxyBan
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.parameters import StrictRoute
from rest_service.service import Service, TheClient, TheService

LONGEST_BAN_S = 366 * 86_400

router = APIRouter(prefix="/v2", tags=["proxies"], route_class=StrictRoute)

Name = Annotated[str, Path(min_length=1, max_length=64, examples=["de"])]


class Unban(BaseModel):
    """A proxy, and the domain that a ban is for; without a domain it is for all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(min_length=1, max_length=20, examples=["p-5f3a9c01d2"])
    site: str | None = Field(None, min_length=1, max_length=255, examples=["example.com"])


class Ban(Unban):
    """A ban and its duration; without a duration it is for all domains, until it is lifted."""

    for_s: int | None = Field(None, ge=1, le=LONGEST_BAN_S)


@router.get("/proxies", summary="List pools of proxies")
async def proxies(service: TheService) -> Response:
    """Pools in order of their names: proxies by state; traffic, budget and cost of the day."""
    states, table = await states_of_pools(service)
    told = [pool_json(state, with_proxies=False) for state in states]
    uses = {"default": table.default, "groups": table.groups, "domains": table.domains}
    return success({**uses, "pools": told})


@router.get("/proxies/why", summary="Why a proxy is used for a domain, or not")
async def why_not(
    service: TheService,
    *,
    site: Annotated[str, Query(min_length=1, max_length=255, examples=["example.com"])],
    pool: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """The proxies of the domain's pool in the order of use, and what is against each.

    ``pool`` is null where the domain is fetched directly.
    """
    states, table = await states_of_pools(service)
    host = fold_host(site)
    name = pool or table.pool_for(host)
    if name == DIRECT:
        return success({"pool": None, "proxies": []})
    return success(
        {"pool": name, "proxies": why(_named(states, name), await service.frontier.site_of(host))}
    )


@router.get("/proxies/{pool}", summary="One pool of proxies")
async def one_pool(service: TheService, pool: Name) -> Response:
    """A pool and its proxies: state, score, counts, mean latency, domains that each avoids."""
    states, _ = await states_of_pools(service)
    return success(pool_json(_named(states, pool)))


@router.post("/proxies/ban", summary="Ban a proxy")
async def ban(service: TheService, client: TheClient, wish: Ban) -> Response:
    """Have no page fetched through a proxy, for a while or until it is lifted."""
    with audited(client, "ban-proxy", proxy=wish.id, site=wish.site or ALL_SITES):
        pool = await _pool_with(service, wish.id)
        if wish.for_s is not None:
            site = await service.frontier.site_of(fold_host(wish.site)) if wish.site else ALL_SITES
            await service.frontier.book.ban(ProxyBan(wish.id, site, wish.for_s * 1000))
        elif wish.site is not None:
            raise RequestRefused(422, "A ban for one domain needs an end: for_s.", code="invalid")
        else:
            await service.pools.disable(pool, [wish.id])
    return success({"banned": wish.id})


@router.post("/proxies/unban", summary="End a ban")
async def unban(service: TheService, client: TheClient, wish: Unban) -> Response:
    """Let a proxy be used again, for a domain or for all."""
    with audited(client, "unban-proxy", proxy=wish.id, site=wish.site or ALL_SITES):
        pool = await _pool_with(service, wish.id)
        site = await service.frontier.site_of(fold_host(wish.site)) if wish.site else ALL_SITES
        await service.frontier.book.ban(ProxyBan(wish.id, site, 0))
        if wish.site is None:
            await service.pools.disable(pool, [wish.id], disabled=False)
    return success({"unbanned": wish.id})


async def states_of_pools(service: Service) -> tuple[list[PoolState], PoolTable]:
    """Return the state of the pools in force; raise RedisUnavailable."""
    table = await service.frontier.pools.table() or PoolTable()
    return list(await service.frontier.book.states(table)), table


async def _pool_with(service: Service, proxy: str) -> str:
    """Return the pool that has a proxy, by ZooKeeper; raise RequestRefused (404)."""
    name = (await service.pools.read()).pool_with(proxy)
    if name is None:
        raise RequestRefused(404, "No such proxy found.", code="unknown_proxy")
    return name


def _named(states: list[PoolState], name: str) -> PoolState:
    try:
        return pool_named(states, name)
    except ConfigError as error:
        raise RequestRefused(404, f"{error}.", code="unknown_pool") from None
