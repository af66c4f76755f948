"""The one form of every answer in JSON, errors included: the predecessor's envelope.

``{"status": "SUCCESS", "data": …, "error": null}``, or ``{"status": "FAILURE", "data": null,
"error": {"message": …}}``, where ``error`` may also have a ``cause`` (one sentence), a ``code``
(for programs) and ``errors`` (several sentences, for people).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from crawlstream.errors import CrawlstreamError
from crawlstream.wire import jsontext

JSON = "application/json"


class RequestRefused(CrawlstreamError):
    """The request is answered by an error; nothing was changed."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        cause: str | None = None,
        errors: Sequence[str] = (),
        retry_after_s: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        """Seconds after which to try again, where the status says that it may help."""
        self.details: Mapping[str, object] = {
            name: value
            for name, value in (("code", code), ("cause", cause), ("errors", list(errors)))
            if value
        }


def success(data: object, *, status: int = 200) -> Response:
    """Return an answer; ``data`` may contain ``orjson.Fragment``, JSON that is passed on as is."""
    return answer({"status": "SUCCESS", "data": data, "error": None}, status=status)


def failure(refused: RequestRefused) -> Response:
    """Return the answer for a refused request."""
    error = {"message": str(refused), **refused.details}
    response = answer({"status": "FAILURE", "data": None, "error": error}, status=refused.status)
    if refused.status in {429, 503}:
        response.headers["Retry-After"] = str(max(1, math.ceil(refused.retry_after_s)))
    return response


def answer(value: object, *, status: int = 200) -> Response:
    """Return any value as JSON, without an envelope."""
    return Response(jsontext.dumps(value), status_code=status, media_type=JSON)
