"""Rights by route: a table of every route, to be extended by hand with every new one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.types import Receive, Scope, Send

from crawlstream.boot.api_keys import ApiKey
from crawlstream.model.request import RequestLimits
from crawlstream.wire import requests
from rest_service.agents.mcp_route import McpRoute
from rest_service.app import make_app
from rest_service.http.access import Keyring, RateLimiter, Role
from rest_service.http.envelope import success
from rest_service.http.gate import Gate

TABLE = {
    "GET /health": "anyone",
    "GET /.well-known/http-message-signatures-directory": "anyone",
    "GET /v2/indexnow": "anyone",
    "POST /v2/indexnow": "anyone",
    "GET /health/live": "anyone",
    "GET /health/ready": "anyone",
    "GET /static": "anyone",
    "GET /metrics": "read",
    "GET /": "read",
    "POST /": "read",
    "POST /poll": "read",
    "POST /mcp": "read",
    "POST /feed": "submit",
    "GET /ui/crawls": "read",
    "GET /ui/crawl": "read",
    "GET /ui/crawl/failures": "read",
    "GET /ui/crawl/pages": "read",
    "GET /ui/crawl/runs": "read",
    "GET /ui/crawl/compare": "read",
    "GET /ui/page": "read",
    "GET /ui/page/preview": "read",
    "GET /ui/page/screenshot": "read",
    "GET /ui/page/older": "read",
    "GET /ui/page/newer": "read",
    "GET /ui/page/of": "read",
    "GET /ui/url": "read",
    "GET /ui/search": "read",
    "GET /ui/domains": "read",
    "GET /ui/processes": "read",
    "GET /ui/rejected": "read",
    "GET /ui/schedules": "read",
    "GET /ui/pipelines": "read",
    "GET /ui/proxies": "read",
    "GET /ui/purses": "read",
    "GET /ui/pipelines/runs": "read",
    "GET /ui/rejected/one": "read",
    "GET /ui/submit": "read",
    "GET /docs": "read",
    "GET /v2/openapi.json": "read",
    "POST /v2/crawls": "submit",
    "POST /v2/check": "submit",
    "POST /v2/scrape": "submit",
    "POST /v2/scrape/batch": "submit",
    "GET /v2/scrape/batch/{id}": "read",
    "POST /v2/map": "submit",
    "GET /v2/map/{id}": "read",
    "GET /v2/scrape/{id}": "read",
    "DELETE /v2/scrape/{id}": "submit",
    "GET /v2/crawls": "read",
    "GET /v2/crawl": "read",
    "GET /v2/crawl/top": "read",
    "GET /v2/crawl/runs": "read",
    "GET /v2/crawl/compare": "read",
    "POST /v2/crawl/{verb}": "operate",
    "GET /v2/state": "read",
    "GET /v2/processes": "read",
    "GET /v2/frontier": "read",
    "GET /v2/domains": "read",
    "GET /v2/domains/{domain}": "read",
    "PUT /v2/domains/{domain}/guard": "operate",
    "GET /v2/throttle": "read",
    "PUT /v2/throttle/rules/{domain}": "operate",
    "DELETE /v2/throttle/rules/{domain}": "operate",
    "PUT /v2/throttle/blacklist/{domain}": "operate",
    "DELETE /v2/throttle/blacklist/{domain}": "operate",
    "POST /v2/rejected/replay": "operate",
    "GET /v2/schedules": "read",
    "GET /v2/pipelines": "read",
    "GET /v2/proxies": "read",
    "GET /v2/proxies/why": "read",
    "GET /v2/proxies/{pool}": "read",
    "POST /v2/proxies/ban": "operate",
    "POST /v2/proxies/unban": "operate",
    "POST /ui/do/v2/proxies/{verb}": "operate",
    "POST /ui/do/v2/purses/{name}/adopt": "operate",
    "GET /v2/purses": "read",
    "GET /v2/purses/{name}": "read",
    "PUT /v2/purses/{name}": "operate",
    "DELETE /v2/purses/{name}": "operate",
    "POST /v2/purses/{name}/adopt": "operate",
    "POST /v2/purses/{name}/forgive": "operate",
    "GET /v2/pipelines/{name}/report": "read",
    "GET /v2/schedules/{appid}/{name}": "read",
    "PUT /v2/schedules/{appid}/{name}": "operate",
    "DELETE /v2/schedules/{appid}/{name}": "operate",
    "POST /v2/schedules/{appid}/{name}/{verb}": "operate",
    "GET /ui/process": "operate",
    "POST /v2/processes/{name}/drain": "operate",
    "POST /ui/do/v2/processes/{name}/drain": "operate",
    "POST /ui/do/v2/crawls": "submit",
    "POST /ui/do/v2/check": "submit",
    "POST /ui/do/v2/rejected/replay": "operate",
    "POST /ui/do/v2/crawl/{verb}": "operate",
    "POST /ui/do/v2/throttle/rules": "operate",
    "POST /ui/do/v2/throttle/blacklist": "operate",
    "POST /ui/do/v2/schedules/{appid}/{name}/{verb}": "operate",
    "GET /v2/{name}": "read",
    "GET /v2/{name}/stream": "read",
    "GET /v2/{name}/export": "read",
}
"""Route -> the least role that may use it. ``POST /feed`` needs more for some requests."""

OF_APPLICATIONS = {
    *(
        "GET /",
        "POST /",
        "POST /poll",
        "POST /mcp",
        "POST /feed",
        "GET /v2/openapi.json",
        "GET /docs",
    ),
    *("GET /ui/crawls", "GET /ui/crawl", "GET /ui/crawl/failures", "GET /ui/crawl/pages"),
    *(
        "GET /ui/page/screenshot",
        "GET /ui/page/preview",
        "GET /ui/page/older",
        "GET /ui/page/newer",
        "GET /ui/page/of",
    ),
    *("GET /ui/page", "GET /ui/rejected", "GET /ui/rejected/one", "GET /ui/submit"),
    *("POST /v2/crawls", "POST /v2/check", "GET /v2/crawls", "GET /v2/crawl"),
    *("GET /v2/crawl/runs", "GET /v2/crawl/compare"),
    *("GET /ui/crawl/runs", "GET /ui/crawl/compare"),
    *(
        "POST /v2/crawl/{verb}",
        "POST /v2/rejected/replay",
        "GET /ui/schedules",
        "GET /v2/schedules",
    ),
    *("GET /v2/schedules/{appid}/{name}", "PUT /v2/schedules/{appid}/{name}"),
    *("DELETE /v2/schedules/{appid}/{name}", "POST /v2/schedules/{appid}/{name}/{verb}"),
    *("GET /ui/url", "GET /ui/search", "GET /v2/frontier"),
    *("POST /ui/do/v2/crawls", "POST /ui/do/v2/check", "POST /ui/do/v2/rejected/replay"),
    *("POST /ui/do/v2/crawl/{verb}", "POST /ui/do/v2/schedules/{appid}/{name}/{verb}"),
    *("POST /v2/scrape", "GET /v2/scrape/{id}", "DELETE /v2/scrape/{id}"),
    *("POST /v2/scrape/batch", "GET /v2/scrape/batch/{id}", "POST /v2/map", "GET /v2/map/{id}"),
    *("GET /v2/{name}", "GET /v2/{name}/stream", "GET /v2/{name}/export"),
}
"""Routes for keys of single applications, too: each of them separates applications."""

_SECRETS = {role: f"{role}-secret-0123456789" for role in ("read", "submit", "operate")}
_BOUND = "bound-secret-0123456789"


def _application() -> Any:
    settings = SimpleNamespace(api_keys=(), rest_rate=0, rest_max_body_bytes=1024)
    service: Any = SimpleNamespace(settings=settings)
    gate: Any = make_app(service, McpRoute(may_change=False))
    return gate._app._app._app


def _routes() -> set[str]:
    """Every route that the application has."""
    return {
        f"{method} {route.path}"
        for route in _application().routes
        for method in (getattr(route, "methods", None) or {"GET"}) - {"HEAD"}
    }


async def _behind(scope: Scope, receive: Receive, send: Send) -> None:
    """Whatever is behind the gate, which lets through only who may pass."""
    await success("passed")(scope, receive, send)


async def _status(route: str, secret: str | None) -> int:
    """How the gate answers a request for a route."""
    keys = [ApiKey(role=cast(Any, role), secret=known) for role, known in _SECRETS.items()]
    keys.append(ApiKey(role="operate", secret=_BOUND, appids=frozenset({"shop"})))
    gate = Gate(_behind, keyring=Keyring(keys), limiter=RateLimiter(0), max_body_bytes=1024)
    method, _, path = route.partition(" ")
    named = {"verb": "stop", "domain": "example.com", "name": "results", "pool": "de", "id": "1"}
    path = path.format(**named, appid="shop")
    path = f"{path}/live.js" if path == "/static" else path
    headers = [(b"host", b"x")] + ([(b"x-api-key", secret.encode())] if secret else [])
    scope = {"type": "http", "method": method, "path": path, "query_string": b""}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await gate({**scope, "headers": headers, "client": ("192.0.2.1", 1)}, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize("route", TABLE)
async def test_a_key_for_applications_has_no_way_to_the_cluster(route: str) -> None:
    """A route that does not separate applications is refused to it, whatever its role."""
    is_open = route in OF_APPLICATIONS or TABLE[route] == "anyone"
    assert await _status(route, _BOUND) == (200 if is_open else 403)


def test_every_route_has_a_row() -> None:
    """Finds a route without a row, and a row without a route."""
    assert _routes() == set(TABLE)


@pytest.mark.parametrize("route", TABLE)
async def test_each_role_may_do_what_it_should_and_no_more(route: str) -> None:
    """No key, a wrong key and every role at every route: 200, 401 or 403."""
    needed = Role[TABLE[route].upper()]
    expected: dict[str | None, int] = {
        None: 200 if needed is Role.ANYONE else 401,
        "a-key-that-nobody-has": 401,
        **{
            secret: 200 if Role[role.upper()] >= needed else 403
            for role, secret in _SECRETS.items()
        },
    }
    assert {secret: await _status(route, secret) for secret in expected} == expected


def test_the_description_has_every_route_and_one_form_of_refusal() -> None:
    """Programs find each route of theirs, examples of what it takes, and how it refuses."""
    told = _application().openapi()
    paths = told["paths"].items()
    found = {f"{method.upper()} {path}" for path, methods in paths for method in methods}
    hidden = {
        "GET /health",
        "GET /static",
        "GET /docs",
        "GET /v2/openapi.json",
        "POST /",
        "POST /mcp",
    }
    assert found == {route for route in TABLE if "/ui/" not in route} - hidden
    text = json.dumps(told)
    assert "HTTPValidationError" not in text
    for operations in told["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            assert "Failure" in json.dumps(operation["responses"]["default"])
            if taken := operation.get("requestBody"):
                (kind, *_) = taken["content"].values()
                assert "example" in json.dumps([kind, told["components"]["schemas"]])


def test_the_examples_of_what_is_fed_would_be_taken() -> None:
    """Each example of the description is a request that the cluster understands."""
    feed = _application().openapi()["paths"]["/feed"]["post"]
    examples = feed["requestBody"]["content"]["application/json"]["examples"].values()
    assert len(examples) >= 4
    for example in examples:
        raw = json.dumps(example["value"]).encode()
        requests.decode(raw, limits=RequestLimits(max_depth=100))
