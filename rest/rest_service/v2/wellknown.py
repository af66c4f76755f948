"""The directory of the keys that requests are signed with, for verifiers."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import structlog
from fastapi import APIRouter, Request, Response

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError
from crawlstream.signing import directory
from crawlstream.signing.signer import DIRECTORY_PATH
from rest_service.http.envelope import RequestRefused
from rest_service.metrics import DIRECTORY_EXPIRES
from rest_service.service import TheService

router = APIRouter(tags=["signing"])
log = structlog.get_logger()


@router.get(DIRECTORY_PATH, summary="Public keys of signed requests", response_class=Response)
async def keys(request: Request, service: TheService) -> Response:
    """The file that `crawlstream signing directory` wrote; 304 if the client has it already."""
    path = service.settings.signing_directory
    if not path:
        raise RequestRefused(404, "No keys are published here: set CRAWLSTREAM_SIGNING_DIRECTORY.")
    try:
        found = directory.read(Path(path))
    except ConfigError as error:
        log.warning("signing_directory", outcome="failed", error=str(error))
        sentence = "The keys cannot be read: see the log of REST."
        raise RequestRefused(503, sentence, code="unavailable") from error
    # The proofs are renewed while the body stays the same: both make the version.
    headers = {
        **found.headers,
        "ETag": f'"{found.expires}-{found.headers["Content-Digest"][9:-1]}"',
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers)


def watch(settings: Settings) -> None:
    """Show how long the published directory is valid, if there is one."""
    if not settings.signing_directory:
        return

    def left() -> float:
        with suppress(ConfigError):
            return directory.read(Path(settings.signing_directory)).expires - time.time()
        return 0.0

    DIRECTORY_EXPIRES.labels(settings.signature_agent).set_function(left)
