"""Audit log: one event ``audit`` for every attempt to change the cluster over HTTP.

It names the key, never its secret; the address of the connection, which may be a proxy's; the
action, its target, and its outcome. ``unavailable`` means that it may have taken effect all
the same. ``via`` is ``mcp`` for a tool of an agent. Names that clients chose are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from crawlstream.errors import BadTable, Conflict, InvalidRequest, Unavailable
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused

_LONGEST = 100
_TARGET = ("appid", "crawlid", "spiderid", "domain", "hits", "window", "scale", "priority")
_ASKING = frozenset({"info"})

log = structlog.get_logger()


@contextmanager
def audited(client: Client, action: str, **target: object) -> Iterator[None]:
    """Log the action of the block when it has ended."""
    outcome = "failed"
    try:
        yield
        outcome = "done"
    except Exception as error:
        outcome = _outcome(error)
        raise
    finally:
        log.info(
            "audit",
            key=client.name,
            address=client.address,
            action=action,
            outcome=outcome,
            **({"via": client.via} if client.via else {}),
            **{name: value for name, value in target.items() if value is not None},
        )


@contextmanager
def audited_request(client: Client, fields: Mapping[str, object]) -> Iterator[None]:
    """Log a request that is fed; requests that only read are not logged."""
    action = _told(fields.get("action", "feed"))
    if action in _ASKING or "stats" in fields:
        yield
        return
    named = {name: _told(fields[name]) for name in _TARGET if name in fields}
    with audited(client, action, **named):
        yield


def _told(value: object) -> str:
    """Return a value that a client chose, cut for the log."""
    text = str(value) if isinstance(value, str | int | float) else type(value).__name__
    return text[:_LONGEST].encode("utf-8", "replace").decode()


def _outcome(error: Exception) -> str:
    match error:
        case RequestRefused():
            return str(error.details.get("code", error.status))
        case Unavailable():
            return "unavailable"
        case InvalidRequest() | BadTable():
            return "invalid"
        case Conflict():
            return "conflict"
        case _:
            return "failed"
