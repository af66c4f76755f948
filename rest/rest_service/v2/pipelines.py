"""``/v2``: pipelines, which store results, and their reports about runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from crawlstream.errors import KafkaUnavailable
from crawlstream.stats.heartbeat import living_in
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused, success
from rest_service.runs.deliveries import Deliveries, Run, read_deliveries
from rest_service.service import Service, TheClient, TheService
from rest_service.v2.pipeline_states import states_of

router = APIRouter(prefix="/v2", tags=["pipelines"])

Name = Annotated[str, Path(min_length=1, max_length=40, examples=["archive"])]


@router.get("/pipelines", summary="List pipelines")
async def pipelines(service: TheService) -> Response:
    """Pipelines, sorted: state, lag, positions and account of those with a running process.

    ``last_run`` is the last one that it has stored, as far as the latest events say, or null. A
    pipeline without a process has only that, its ``name`` and ``edition``, and the state ``ended``.
    """
    last = await service.last_runs.read(service.kafka, service.topics.events)
    states = states_of(await living_in(service.frontier.heartbeats))
    found = {one.name: asdict(one) for one in states}
    ended = {name: _ended(name, run) for name, run in last.items() if name not in found}
    told = sorted((ended | found).items())
    return success([{**one, "last_run": _stored(last.get(name))} for name, one in told])


def _ended(name: str, run: Run) -> dict[str, Any]:
    return {"name": name, "edition": run["edition"], "state": "ended"}


def _stored(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else {key: run.get(key) for key in _OF_A_RUN}


_OF_A_RUN = (
    *("appid", "crawlid", "spiderid", "run", "server_time", "complete", "delivered", "undelivered"),
    "ok",
)


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
