"""Import the tools of agents, and their libraries, only where an operator has turned them on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from crawlstream.boot.settings import Settings
from crawlstream.errors import MissingExtra

if TYPE_CHECKING:
    from rest_service.agents.mcp_route import McpRoute


def mcp_route_of(settings: Settings) -> McpRoute | None:
    """Return the route that CRAWLSTREAM_MCP wants, if any; MissingExtra."""
    if settings.mcp == "off":
        return None
    try:
        module = import_module("rest_service.agents.mcp_route")
    except ModuleNotFoundError as error:
        raise MissingExtra("CRAWLSTREAM_MCP", error.name, "mcp") from error
    route: McpRoute = module.McpRoute(may_change=settings.mcp == "submit")
    return route
