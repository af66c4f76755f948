"""A tool of an agent: its name, arguments, result, and the role that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from rest_service.agents.tool_refusals import ToolRefused
from rest_service.agents.v2_client import V2Client
from rest_service.http.access import Role


class ToolArguments(BaseModel):
    """Arguments of a tool; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


class ToolResult(BaseModel):
    """Result of a tool for programs; each field has a value."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Return the result with those fields that it has of an object of REST."""
        return cls(**{name: told.get(name) for name in cls.model_fields})


class SiteText(NamedTuple):
    """A text that a website wrote."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """Result of a call."""

    result: ToolResult
    texts: Sequence[SiteText] = ()
    """Texts of websites, which a model gets behind a fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool that a model may call."""

    name: str
    title: str
    about: str
    """Description for the model."""
    arguments: type[ToolArguments]
    result: type[ToolResult]
    run: Callable[[V2Client, Any], Awaitable[ToolAnswer]]
    role: Role = Role.READ
    changes: bool = False
    """True if it changes a crawl: only where the operator permits it."""
    is_open: bool = False
    """True if it sends requests to websites."""

    async def call(self, client: V2Client, given: object) -> ToolAnswer:
        """Check the arguments and run the tool; ToolRefused has a sentence for the model."""
        try:
            arguments = self.arguments.model_validate(given)
        except ValidationError as error:
            raise ToolRefused(_problems(error)) from None
        return await self.run(client, arguments)


def _problems(error: ValidationError) -> str:
    """Return what is wrong with arguments; values are left out, which may be long."""
    told = [
        f"`{'.'.join(map(str, each['loc'])) or 'arguments'}`: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)[:10]
    ]
    return f"The arguments are not valid: {'; '.join(told)}. Nothing was done."
