"""The tools at ``/mcp`` of the REST service, by the protocol's streamable HTTP."""

from __future__ import annotations

import asyncio
from typing import cast

import httpx2
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rest_service.agents.mcp_server import Context, ToolCaller, mcp_server
from rest_service.agents.v2_client import DEFAULT_APPID, V2Client
from rest_service.http.access import Client, secret_of
from rest_service.http.gate import CLIENT

MCP_PATH = "/mcp"
_TIMEOUT_S = 90


class McpRoute:
    """The route, whose tools call the service that it is part of.

    There are no sessions: each request says all that is needed, also of clients of revision
    2025-11-25, whose ``initialize`` is answered and forgotten.
    """

    def __init__(self, *, may_change: bool) -> None:
        self._service: ASGIApp | None = None
        self._sessions = StreamableHTTPSessionManager(
            mcp_server(self._caller_of, may_change=may_change), stateless=True, json_response=True
        )
        self.route = Route(MCP_PATH, endpoint=self, methods=["POST"])

    def connect(self, service: ASGIApp) -> None:
        """Name the whole service, with its gate: what tools call is judged like other requests."""
        self._service = service

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self._sessions.run():
            await asyncio.Event().wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["route"] = self.route
        await self._sessions.handle_request(scope, receive, send)

    def _caller_of(self, context: Context) -> ToolCaller:
        request = cast(Request, context.request)
        client: Client = request.scope[CLIENT]
        assert self._service is not None
        peer = request.client
        transport = httpx2.ASGITransport(
            self._service,
            raise_app_exceptions=False,
            client=(peer.host, peer.port) if peer else ("unknown", 0),
        )
        http = httpx2.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            timeout=_TIMEOUT_S,
            trust_env=False,
        )
        key = secret_of(request) or ""
        appid = next(iter(client.appids)) if len(client.appids) == 1 else DEFAULT_APPID
        return ToolCaller(V2Client(http=http, key=key, appid=appid), client.role)
