"""Bodies of requests as values."""

from __future__ import annotations

import json

from starlette.requests import Request

from crawlstream.wire import jsontext
from rest_service.http.access import FORMS
from rest_service.http.envelope import RequestRefused


def media_type(request: Request) -> str:
    """Return the type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(request: Request) -> bool:
    """Return whether the content type of the body is JSON."""
    kind = media_type(request)
    return kind == "application/json" or (kind.startswith("application/") and "+json" in kind)


def wants_html(request: Request) -> bool:
    """Return whether a browser requests a page or its live updates, or sends a form."""
    accepted = request.headers.get("accept", "").lower()
    is_reading = request.method in {"GET", "HEAD"} or request.url.path.startswith(FORMS)
    is_page = "text/html" in accepted or "text/event-stream" in accepted
    return is_reading and is_page and "application/json" not in accepted


def parse_json(raw: bytes, message: str) -> object:
    """Parse JSON as leniently as the predecessor; raise RequestRefused with ``message``."""
    try:
        value: object = jsontext.loads(raw)
    except ValueError:
        try:
            value = json.loads(raw.removeprefix(jsontext.BYTE_ORDER_MARK).decode())
        except (ValueError, RecursionError) as error:
            raise RequestRefused(400, message, cause=str(error)[:200]) from None
    return value
