"""``/v2``: the state of the cluster, its processes, and the throttle rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, create_model
from redis.exceptions import RedisError

from crawlstream.errors import ConfigError, Unavailable
from crawlstream.model.rule_field import RuleField
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleTable, site_of
from crawlstream.model.url import fold_host
from crawlstream.stats.domains import read_domains
from crawlstream.stats.heartbeat import living_in
from crawlstream.stats.wishes import Wish, wish
from crawlstream.wire import views
from crawlstream_frontier.partitions.family_decisions import FORGET, WHY_NOT, decide, guard_report
from crawlstream_frontier.rule_history import note_author
from crawlstream_frontier.waste.persons import check_family
from crawlstream_frontier.worker.person_store import OK
from rest_service.http.access import Client
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.parameters import StrictRoute
from rest_service.service import Service, TheClient, TheService

log = structlog.get_logger()

router = APIRouter(prefix="/v2", tags=["cluster"], route_class=StrictRoute)

ProcessName = Annotated[
    str, Path(min_length=1, max_length=300, examples=["crawler:host-1:7f3a9c0b12de"])
]
Domain = Annotated[str, Path(min_length=1, max_length=255, examples=["example.com"])]


def _change_of(field: RuleField) -> tuple[object, object]:
    least, most = field.bounds
    return field.kind | None, Field(None, description=field.meaning, ge=least, le=most)


_changes: Any = {field.name: _change_of(field) for field in RULE_FIELDS}
_RuleFields: Any = create_model("RuleFields", **_changes)


class Rule(_RuleFields):  # type: ignore[misc]  # made from a rule's fields
    """Fields of a rule to change; absent ones stay as they are."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"example": {"hits": 2, "window": 1}}
    )


@router.get("/state", summary="Counters of the frontier")
async def state(service: TheService) -> Response:
    """Numbers of running crawls, of queued, delayed and in-flight pages, and of workers."""
    return success(views.frontier(await service.frontier.queries.state()))


@router.get("/processes", summary="Running processes")
async def processes(service: TheService) -> Response:
    """Every process with a heartbeat in the last 20 s."""
    found = await living_in(service.frontier.heartbeats)
    return success([views.process(one) for one in sorted(found, key=lambda p: p.name)])


@router.post("/processes/{name}/drain", status_code=202, summary="Drain a crawler")
async def drain(name: ProcessName, service: TheService, client: TheClient) -> Response:
    """Have a crawler finish its pages in flight, release the others, and end.

    It begins within 5 s. A supervisor starts another one in its place.
    """
    with audited(client, "drain", process=name):
        found = {one.name: one for one in await living_in(service.frontier.heartbeats)}.get(name)
        if found is None:
            raise RequestRefused(404, "No such process is running.", code="unknown_process")
        if not found.activity.can_drain:
            raise RequestRefused(
                422, "Only a crawler that is not draining can be drained.", code="not_possible"
            )
        first, *also = service.frontier.heartbeats
        await wish(*first, name, Wish.DRAIN, also=also)
    return success({"draining": name}, status=202)


@router.get("/domains", summary="The busiest domains")
async def domains(
    service: TheService, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """Responses of the busiest domains in the last hour; ``*`` sums all other domains."""
    found = await read_domains(service.redis, service.keys, most=limit)
    return success({name: asdict(traffic) for name, traffic in found.items()})


@router.get("/domains/{domain}", summary="One domain")
async def domain_state(domain: Domain, service: TheService) -> Response:
    """Rule of a domain, its source, its back-off, the earliest time of its next request."""
    host = fold_host(domain)
    table = await service.frontier.rules.table()
    name = site_of(table, host)
    source = table.source_of(name) if table else None
    return success(
        {"source": source, **views.domain(await service.frontier.inspector.domain(name))}
    )


class FamilyDecision(BaseModel):
    """Decision about a family of URLs of a site."""

    model_config = ConfigDict(extra="forbid", strict=True)

    family: str = Field(
        min_length=1,
        max_length=300,
        description="As `frontier guard` shows it: `?sort`, `host`, `/events/#/#`.",
        examples=["?sort"],
    )
    verdict: Literal["allow", "refuse", "forget"] = Field(
        description="`forget` takes a verdict back.", examples=["allow"]
    )


@router.put("/domains/{domain}/guard", summary="Overrule the waste guard")
async def decide_family(
    domain: Domain, decision: FamilyDecision, service: TheService, client: TheClient
) -> Response:
    """Allow or refuse a family of URLs of a site, for all crawls whose guard is on.

    The verdict stays until it is taken back; the name of the key is kept with it. ``data`` has
    what the guard has learned of the site, and all verdicts of persons on it.
    """
    host, told = fold_host(domain), decision.model_dump()
    with audited(client, "decide-family", domain=domain, **told):
        try:
            family = check_family(decision.family)
        except ConfigError as error:
            raise RequestRefused(422, f"{error}.", code="invalid") from None
        word, author = decision.verdict, client.name
        why = await decide(service.frontier, host, word, family=family, author=author)
        if why != OK:
            status = 404 if decision.verdict == FORGET else 409
            raise RequestRefused(status, f"{WHY_NOT[why].capitalize()}.", code=why)
    return success(asdict(await guard_report(service.frontier, host)))


@router.get("/throttle", summary="The throttle rules")
async def rules(service: TheService) -> Response:
    """All rules and the blacklist, as they are in ZooKeeper now."""
    return _rules(await service.editor.read())


@router.put("/throttle/rules/{domain}", summary="Set a rule")
async def set_rule(domain: Domain, rule: Rule, service: TheService, client: TheClient) -> Response:
    """Set the rule of a domain, or of ``default``; it takes effect within about a second.

    ``set`` has the rule as it is now, under its name; the other fields are all rules.
    """
    if not rule.model_fields_set:
        raise RequestRefused(422, "No field to set was given.", code="invalid")
    with audited(client, "set-rule", domain=domain, **rule.model_dump(exclude_unset=True)):
        edit = partial(service.editor.set_rule, domain, **rule.model_dump())
        table = await _changed(service, client, edit)
        name = fold_host(domain)
        changed = table.default if name == "default" else table.rule_for(name)
        return success({"set": {name: changed.named()}, **views.throttle_table(table)})


@router.delete("/throttle/rules/{domain}", summary="Remove a rule")
async def remove_rule(domain: Domain, service: TheService, client: TheClient) -> Response:
    """Remove the rule of a domain, so that the default rule applies."""
    with audited(client, "remove-rule", domain=domain):
        return _rules(await _changed(service, client, partial(service.editor.remove_rule, domain)))


@router.put("/throttle/blacklist/{domain}", summary="Block a domain")
async def block(domain: Domain, service: TheService, client: TheClient) -> Response:
    """Block a domain: nothing is fetched from it, its queued pages are kept."""
    with audited(client, "block", domain=domain):
        return _rules(await _changed(service, client, partial(service.editor.block, domain)))


@router.delete("/throttle/blacklist/{domain}", summary="Unblock a domain")
async def unblock(domain: Domain, service: TheService, client: TheClient) -> Response:
    """Unblock a domain."""
    with audited(client, "unblock", domain=domain):
        return _rules(await _changed(service, client, partial(service.editor.unblock, domain)))


def _rules(table: ThrottleTable) -> Response:
    return success(views.throttle_table(table))


async def _changed(
    service: Service, client: Client, edit: Callable[[], Awaitable[ThrottleTable]]
) -> ThrottleTable:
    """Return the rules after an edit; record the author of this version, if Redis accepts it."""
    known = await _version(service)
    table = await edit()
    # An edit that leaves the rules as they are makes no version.
    if table.mzxid != known:
        try:
            await note_author(service.redis, service.keys, table.mzxid, client.name)
        except RedisError as error:
            log.warning("rules", outcome="author_not_noted", error=str(error))
    return table


async def _version(service: Service) -> int:
    """Return the version of the rules in force; 0 if Redis is unavailable."""
    try:
        table = await service.frontier.rules.table()
    except Unavailable:
        return 0
    return table.mzxid if table else 0
