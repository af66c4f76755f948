"""Bodies of requests as values."""

from __future__ import annotations

import json

from starlette.requests import Request

from crawlstream.wire import jsontext
from rest_service.http.access import FORMS
from rest_service.http.envelope import RequestRefused


def media_type(request: Request) -> str:
    """The type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(request: Request) -> bool:
    """Return whether the body is said to be JSON."""
    kind = media_type(request)
    return kind == "application/json" or (kind.startswith("application/") and "+json" in kind)


def wants_html(request: Request) -> bool:
    """Whether a browser asks, for a page, what keeps it live, or by a form: it names no JSON."""
    accepted = request.headers.get("accept", "").lower()
    is_reading = request.method in {"GET", "HEAD"} or request.url.path.startswith(FORMS)
    is_page = "text/html" in accepted or "text/event-stream" in accepted
    return is_reading and is_page and "application/json" not in accepted


def parse_json(raw: bytes, message: str) -> object:
    """The value of any JSON, read as leniently as the predecessor; Refused with ``message``."""
    try:
        value: object = jsontext.loads(raw)
    except ValueError:
        try:
            value = json.loads(raw.removeprefix(jsontext.BYTE_ORDER_MARK).decode())
        except (ValueError, RecursionError) as error:
            raise RequestRefused(400, message, cause=str(error)[:200]) from None
    return value
