"""State of this process: for load balancers, for Prometheus, for people."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from rest_service.http.envelope import RequestRefused, success
from rest_service.service import TheService

router = APIRouter(tags=["health"])


@router.get("/health/live", summary="Liveness probe")
async def live() -> Response:
    """200 as long as the process answers at all."""
    return success({"alive": True})


@router.get("/health", include_in_schema=False)
@router.get("/health/ready", summary="Readiness probe")
async def ready(service: TheService) -> Response:
    """200 when Kafka and Redis answer; 503 names the one that does not."""
    if service.reach.missing:
        named = " and ".join(name.capitalize() for name in service.reach.missing)
        raise RequestRefused(503, f"Waiting for {named}.", code="unavailable")
    return success({"ready": True})


@router.get("/metrics", summary="Prometheus metrics", response_class=Response)
async def metrics() -> Response:
    """Metrics of this process, in Prometheus' text format."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
