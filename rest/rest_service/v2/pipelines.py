"""``/v2``: pipelines, which store results, and their reports about runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Response

from crawlstream.errors import KafkaUnavailable
from crawlstream.runs.deliveries import Deliveries, read_deliveries
from crawlstream.stats.heartbeat import living_in
from crawlstream.stats.pipelines import states_of
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused, success
from rest_service.service import Service, TheClient, TheService

router = APIRouter(prefix="/v2", tags=["pipelines"])

Name = Annotated[str, Path(min_length=1, max_length=40, examples=["archive"])]


@router.get("/pipelines", summary="List pipelines")
async def pipelines(service: TheService) -> Response:
    """Pipelines with a running process, sorted: state, lag, positions and account."""
    found = states_of(await living_in(service.frontier.heartbeats))
    return success([asdict(one) for one in found])


@router.get("/pipelines/{name}/report", summary="Runs that a pipeline has stored")
async def report(
    service: TheService, client: TheClient, name: Name, crawlid: str | None = None
) -> Response:
    """The latest 100 events `run_delivered` of a pipeline, the latest first, one per run.

    If ``is_complete`` is false, there are more: the latest 200 000 events were read, or as many as
    could be read in 10 s.
    """
    found = await deliveries(service, client, name, crawlid)
    if not found.runs:
        known = states_of(await living_in(service.frontier.heartbeats))
        if name not in {one.name for one in known}:
            raise RequestRefused(404, f"No pipeline {name} found.", code="unknown_pipeline")
    return success({"runs": found.runs, "is_complete": found.is_complete})


async def deliveries(
    service: Service, client: Client, name: str, crawlid: str | None = None
) -> Deliveries:
    """Return the runs that a pipeline has reported; raise KafkaUnavailable."""
    if not service.reach.kafka:
        raise KafkaUnavailable
    async with service.pages.of(client.name):
        return await read_deliveries(service.kafka, service.topics.events, name, crawlid=crawlid)
