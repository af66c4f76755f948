"""A client of ``/v2`` for the tools, with the key of who calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import orjson

from crawlstream import __version__
from crawlstream.called import COMMAND
from crawlstream.wire import jsontext
from rest_service.agents.tool_refusals import ToolRefused, sentence_of
from rest_service.http.access import MCP_AGENT

AGENT = f"{MCP_AGENT}{__version__}"
"""Value of ``User-Agent`` in all calls, by which the audit log recognises them."""
DEFAULT_APPID = "agents"


@dataclass(frozen=True, slots=True)
class V2Answer:
    """A success of REST."""

    status: int
    data: Any
    retry_after_s: int
    """Seconds until the data will have come, of a 202."""


@dataclass(frozen=True, slots=True, kw_only=True)
class V2Client:
    """Calls REST for one caller of tools."""

    http: httpx2.AsyncClient
    key: str = field(default="", repr=False)
    appid: str = DEFAULT_APPID
    """Application of calls that name none."""

    async def get(self, path: str, **query: object) -> V2Answer:
        """Return the answer to a GET; queries that are None are left out. ToolRefused."""
        given = {name: _as_text(value) for name, value in query.items() if value is not None}
        return await self._call("GET", path, params=given)

    async def post(self, path: str, body: Mapping[str, object]) -> V2Answer:
        """Return the answer to a POST of JSON. ToolRefused."""
        return await self._call("POST", path, content=orjson.dumps(body))

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> V2Answer:
        headers = {"User-Agent": AGENT, "Accept": "application/json"}
        headers |= {"X-API-Key": self.key} if self.key else {}
        headers |= {"Content-Type": "application/json"} if content is not None else {}
        try:
            reply = await self.http.request(
                method, path, params=params, content=content, headers=headers
            )
        except httpx2.HTTPError as error:
            raise ToolRefused(_unreachable(self.http, error)) from error
        return _answer_of(reply)


def _unreachable(http: httpx2.AsyncClient, error: httpx2.HTTPError) -> str:
    is_late = isinstance(error, httpx2.TimeoutException)
    problem = "did not answer in time" if is_late else "cannot be reached"
    return (
        f"The REST service at {http.base_url} {problem}. Tell your user to start it"
        f" (`{COMMAND} up -d`), or to correct its address."
    )


def _answer_of(reply: httpx2.Response) -> V2Answer:
    retry_after = reply.headers.get("retry-after", "")
    try:
        envelope: Any = jsontext.loads(reply.content)
        if reply.status_code < 300:
            left_s = int(retry_after) if retry_after.isdecimal() else 0
            return V2Answer(reply.status_code, envelope["data"], left_s)
        refused = envelope["error"] or {}
    except (ValueError, LookupError, TypeError) as error:
        told = f"The REST service answered {reply.status_code}, and not in its own form."
        raise ToolRefused(told) from error
    raise ToolRefused(sentence_of(reply.status_code, refused, retry_after))


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
