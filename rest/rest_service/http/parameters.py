"""Query parameters: unknown ones are refused, not ignored.

A filter that is misspelt, or does not exist, would return everything.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute

from rest_service.http.envelope import RequestRefused


class StrictRoute(APIRoute):
    """A route that refuses (400) unknown query parameters and names them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, preceded by the check."""
        handle = super().get_route_handler()
        fields = get_flat_params(self.dependant)
        known = {one.alias for one in fields if isinstance(one.field_info, Query)}

        async def handle_known(request: Request) -> Response:
            if unknown := sorted(request.query_params.keys() - known):
                raise _refusal(unknown, sorted(known))
            return await handle(request)

        return handle_known


def _refusal(unknown: list[str], known: list[str]) -> RequestRefused:
    named = ", ".join(name[:100] for name in unknown[:10])
    return RequestRefused(
        400,
        f"Unknown query parameter{'s' * (len(unknown) > 1)}: {named}.",
        code="unknown_parameter",
        cause=f"Known here: {', '.join(known)}." if known else "This endpoint has none.",
    )
