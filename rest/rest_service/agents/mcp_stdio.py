"""The tools on standard input and output, for a program that starts them as a command."""

from __future__ import annotations

import httpx2
from mcp.server.stdio import stdio_server

from rest_service.agents.mcp_server import ToolCaller, mcp_server
from rest_service.agents.v2_client import V2Client
from rest_service.http.access import Role

_TIMEOUT_S = 90
"""Longer than REST takes for a call."""


async def serve_stdio(url: str, *, key: str, appid: str, may_change: bool) -> None:
    """Serve until standard input ends; ``url`` is that of the REST service."""
    # Proxies of the environment are for the web, not for the service.
    async with httpx2.AsyncClient(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as http:
        client = V2Client(http=http, key=key, appid=appid)
        # REST alone knows the role of a key, and refuses what is beyond it.
        server = mcp_server(lambda _: ToolCaller(client, Role.OPERATE), may_change=may_change)
        async with stdio_server() as (requests, responses):
            await server.run(requests, responses, server.create_initialization_options())
