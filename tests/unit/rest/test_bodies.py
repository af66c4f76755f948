"""Bodies of requests: bounded each by its route, and all together."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from rest_service.dashboard.page_screen import excerpt
from rest_service.http import gate
from rest_service.http.access import Keyring, RateLimiter
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.gate import Gate

MIB = 1 << 20


class Behind:
    """An application that reads the body, then lets others in before it answers."""

    def __init__(self) -> None:
        self.meanwhile: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, wait, answer."""
        try:
            while (await receive()).get("more_body"):
                pass
        except RequestRefused as refused:
            await success(None, status=refused.status)(scope, receive, send)
            return
        if meanwhile := self.meanwhile:
            self.meanwhile = None
            await meanwhile()
        await success(None)(scope, receive, send)


async def _post(at: Gate, path: str, size: int) -> int:
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "query_string": b""}
    scope |= {"headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "scheme": "http"}
    parts = [size // 2, size - size // 2]
    statuses: list[int] = []

    async def receive() -> Any:
        part = bytes(parts.pop(0))
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    await at(scope, receive, send)
    return statuses[0]


async def test_all_bodies_in_progress_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not fit is refused with 503; one that has ended frees its bytes."""
    monkeypatch.setattr(gate, "BODIES_BYTES", 3 * MIB)
    behind = Behind()
    at = Gate(behind, keyring=Keyring([]), limiter=RateLimiter(0), max_body_bytes=2 * MIB)
    statuses: list[int] = []

    async def meanwhile() -> None:
        statuses.extend([await _post(at, "/feed", size) for size in (2 * MIB, MIB, 2 * MIB)])

    behind.meanwhile = meanwhile
    assert await _post(at, "/feed", 2 * MIB) == 200
    assert statuses == [503, 200, 503]
    assert [await _post(at, "/feed", 2 * MIB) for _ in range(3)] == [200, 200, 200]
    assert await _post(at, "/feed", 2 * MIB + 1) == 413


@pytest.mark.parametrize("path", ["/", "/poll", "/v2/crawl/stop", "/v2/nothing"])
async def test_routes_without_seeds_take_small_bodies(path: str) -> None:
    """A name or a target needs no megabytes."""
    at = Gate(Behind(), keyring=Keyring([]), limiter=RateLimiter(0), max_body_bytes=2 * MIB)
    assert await _post(at, path, gate.SMALL_BODY_BYTES) == 200
    assert await _post(at, path, gate.SMALL_BODY_BYTES + 1) == 413


def test_matches_are_counted_without_a_list_of_them() -> None:
    """A page of one letter, searched for it, takes less memory than the page."""
    text = "a" * MIB
    tracemalloc.start()
    found = excerpt(text, "a", 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.matches == MIB
    assert peak < MIB
