"""Screens about rejected records."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from rest_service.dashboard.fields import place_of
from rest_service.dashboard.outcome import outcome_of
from rest_service.dashboard.render import render
from rest_service.http.access import Client
from rest_service.service import Service, TheClient, TheService
from rest_service.v2.reading import one_record, read_page, wanted_by

_TEXT_SHOWN = 100_000
_COUNTED = 1000
"""Records that are counted by reason."""
_REPLAYED = 500
"""Records that are shown and may be chosen at once."""

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/rejected")
async def rejected(
    request: Request,
    service: TheService,
    client: TheClient,
    *,
    cursor: str | None = None,
    reason: str = "",
) -> Response:
    """Show the latest rejected records, newest first; or page by page from a cursor on."""
    async with service.pages.of(client.name):
        found, is_at_end = await read_page(
            service, "rejected", wanted_by(client), cursor=cursor, limit=_COUNTED
        )
    latest: list[Any] = sorted(found.records, key=lambda record: record["at_ms"], reverse=True)
    reasons = Counter(str(record["value"].get("reason")) for record in latest)
    fitting = [one for one in latest if reason in {"", str(one["value"].get("reason"))}]
    more = urlencode({"cursor": found.cursor, **({"reason": reason} if reason else {})})
    return render(
        "rejected.html",
        "/ui/rejected",
        client=client,
        records=fitting[:_REPLAYED],
        reason=reason,
        reasons=reasons.most_common(),
        total=len(latest),
        left=max(0, len(fitting) - _REPLAYED),
        said=outcome_of(request),
        next_path=None if is_at_end else f"/ui/rejected?{more}",
    )


@router.get("/rejected/one")
async def one(service: TheService, client: TheClient, partition: int, offset: int) -> Response:
    """Show a rejected record with its text."""
    return await screen(service, client, f"{partition}:{offset}")


async def screen(
    service: Service,
    client: Client,
    place: str,
    *,
    raw: str | None = None,
    wrong: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Return the screen of a record at ``partition:offset``, with the input of its form.

    Raises RequestRefused (404, 422).
    """
    record = await one_record(service, client, "rejected", place_of(place))
    value: dict[str, Any] = record["value"]  # type: ignore[assignment]
    received = b64decode(value.pop("raw", None) or "")
    text = received.decode("utf-8", "backslashreplace")[:_TEXT_SHOWN]
    is_hidden = value.pop("raw_hidden", False)
    return render(
        "rejected_one.html",
        "/ui/rejected",
        client=client,
        record=record,
        fields=[(name, text) for name, text in value.items() if name != "errors"],
        errors=value.get("errors") or [],
        text=text,
        edited=text if raw is None else raw,
        wrong=wrong or {},
        status=status,
        is_hidden=is_hidden,
        can_be_edited=_is_text(received) and len(received) <= _TEXT_SHOWN and not is_hidden,
        can_be_replayed=bool(received) and "raw_truncated" not in value,
    )


def _is_text(raw: bytes) -> bool:
    """Return whether the text shown is the whole record, so that it can be corrected."""
    try:
        return bool(raw.decode().strip())
    except UnicodeDecodeError:
        return False
