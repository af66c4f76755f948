"""A REST service of few words, for tools that call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.types import CallToolResult, TextContent

from rest_service.agents.mcp_server import ToolCaller, mcp_server
from rest_service.agents.v2_client import V2Client
from rest_service.http.access import Role

Answer = tuple[int, Any]


class SmallRest:
    """Answers each path with what a test gives it, the last answer always; keeps the requests."""

    def __init__(self, answers: Mapping[str, Answer | list[Answer]], **headers: str) -> None:
        self._answers = answers
        self._headers = headers
        self.requests: list[httpx2.Request] = []

    def client(self, role: Role = Role.OPERATE, *, may_change: bool = False) -> Client:
        """Return a client of tools that call this service."""
        http = httpx2.AsyncClient(
            transport=httpx2.MockTransport(self._answer), base_url="http://rest.example"
        )
        caller = ToolCaller(V2Client(http=http, key="key-of-a-test-0123"), role)
        return Client(mcp_server(lambda _: caller, may_change=may_change))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        given = self._answers.get(request.url.path, (404, {"message": "Nothing."}))
        if isinstance(given, list):
            given = given.pop(0) if len(given) > 1 else given[0]
        status, told = given
        is_good = status < 300
        envelope = {
            "status": "SUCCESS" if is_good else "FAILURE",
            "data": told if is_good else None,
            "error": None if is_good else told,
        }
        return httpx2.Response(status, json=envelope, headers=self._headers)


def texts_of(result: CallToolResult) -> list[str]:
    """Return the texts that a model gets."""
    return [each.text for each in result.content if isinstance(each, TextContent)]
