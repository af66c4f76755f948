"""The application: the gate, the routes, and one form for every error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.routing import Match, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from crawlstream import __version__
from crawlstream.errors import (
    BadTable,
    Conflict,
    CrawlstreamError,
    InvalidRequest,
    Unavailable,
)
from rest_service import dashboard, v1
from rest_service.dashboard import cluster as cluster_screens
from rest_service.dashboard import crawls as crawl_screens
from rest_service.dashboard import forms, reference
from rest_service.dashboard import page_screen as page_screens
from rest_service.dashboard import pipelines as pipeline_screens
from rest_service.dashboard import rejected as rejected_screens
from rest_service.dashboard import runs as run_screens
from rest_service.dashboard import schedules as schedule_screens
from rest_service.dashboard import search as search_screens
from rest_service.dashboard import submit as submit_screens
from rest_service.dashboard.render import render
from rest_service.http.access import Client, Keyring, RateLimiter, Role
from rest_service.http.envelope import RequestRefused, failure
from rest_service.http.gate import CLIENT, Gate
from rest_service.http.head import Heads
from rest_service.http.inputs import wants_html
from rest_service.http.openapi import DocumentedAPI
from rest_service.service import Service
from rest_service.v2 import (
    cluster,
    crawls,
    frontier,
    health,
    indexnow,
    pipelines,
    proxies,
    purses,
    records,
    runs,
    schedules,
    wellknown,
)
from rest_service.v2.scrapes import batches, map_routes, scrape_routes

if TYPE_CHECKING:
    from rest_service.agents.mcp_route import McpRoute

_PREDECESSORS = {"/", "/feed", "/poll"}
_SCREENS = (
    cluster_screens,
    crawl_screens,
    page_screens,
    pipeline_screens,
    rejected_screens,
    run_screens,
    schedule_screens,
    search_screens,
    submit_screens,
    forms,
    reference,
)
_NAMES_OF_ROUTES = {("path", "name"), ("path", "verb")}
NO_ENDPOINT = "The desired endpoint does not exist"
_PLAINER = {"extra_forbidden": "unknown field; /docs has those of this endpoint"}
"""Sentences in place of a library's, by kind of problem."""
_NO_PAGE = "There is no such page. The links above lead to all screens."
_UNEXPECTED = "An error occurred while processing your request."


def make_app(service: Service, tools: McpRoute | None = None) -> ASGIApp:
    """Return the whole service as one ASGI application, with tools for agents if there are any."""
    app = DocumentedAPI(
        title="crawlstream",
        version=__version__,
        openapi_url="/v2/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    of_v2 = (
        crawls,
        runs,
        schedules,
        pipelines,
        proxies,
        purses,
        cluster,
        frontier,
        scrape_routes,
        batches,
        map_routes,
        indexnow,
        records,
    )
    for module in (v1, health, wellknown, *_SCREENS, *of_v2):
        # Not included as routers: FastAPI searches those again for every request.
        app.router.routes.extend(module.router.routes)
    static = Path(dashboard.__file__).with_name("static")
    app.mount("/static", StaticFiles(directory=static))
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(CrawlstreamError, _on_ours)
    app.add_exception_handler(Exception, _on_unexpected)
    if tools is not None:
        app.router.routes.append(tools.route)
    settings = service.settings
    gate = Gate(
        _Straight(Heads(app), service),
        keyring=Keyring(settings.api_keys),
        limiter=RateLimiter(settings.rest_rate),
        max_body_bytes=settings.rest_max_body_bytes,
        refuse=_refuse,
    )
    if tools is not None:
        tools.connect(gate)
    return gate


class _Straight:
    """Calls ``/feed`` directly: FastAPI's routing takes longer than all the rest."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        (self._route,) = (
            route for route in v1.router.routes if getattr(route, "endpoint", None) is v1.feed
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as the application would."""
        if scope["type"] != "http" or scope["path"] != "/feed" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        request = Request(scope, receive)
        try:
            response = await v1.feed(request, self._service, scope[CLIENT])
        except CrawlstreamError as error:
            response = await _on_ours(request, error)
        except ClientDisconnect:
            return
        except Exception:
            await failure(RequestRefused(500, _UNEXPECTED))(scope, receive, send)
            raise
        await response(scope, receive, send)


async def _on_http(request: Request, error: Exception) -> Response:
    """Answer a request that no route matches."""
    assert isinstance(error, HTTPException)
    status, path = error.status_code, request.url.path
    if status == 405 and request.method in {"GET", "POST"} and path in _PREDECESSORS:
        status = 404
    if status == 404:
        return _nothing_there(request)
    response = failure(RequestRefused(status, str(error.detail), code="not_possible"))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    if status == 405:
        response.headers["Allow"] = ", ".join(_methods_at(request))
    return response


def _methods_at(request: Request) -> Sequence[str]:
    """Return the methods of a path, sorted; Starlette knows those of its first route."""
    routes = [
        route
        for route in cast(FastAPI, request.app).routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    # `/v2/crawl/runs` is not the path of a route whose parameter could be `runs`.
    path = min((route.path for route in routes), key=lambda path: path.count("{"))
    found = {method for route in routes if route.path == path for method in route.methods or ()}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _nothing_there(request: Request) -> Response:
    """Return a redirect to the page meant by the path, or the predecessor's error."""
    path = request.url.path.rstrip("/")
    is_meant = path in reference.WAYS.values() and path != request.url.path
    target = path if is_meant else reference.WAYS.get(path)
    if request.method != "GET":
        target = None
    if target is None:
        is_page = wants_html(request)
        return _refuse(request, RequestRefused(404, _NO_PAGE if is_page else NO_ENDPOINT))
    query = request.url.query
    return RedirectResponse(f"{target}?{query}" if query else target)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if any(problem["loc"] in _NAMES_OF_ROUTES for problem in error.errors()):
        return _nothing_there(request)
    problems = [
        f"{'.'.join(map(str, problem['loc']))}: {_PLAINER.get(problem['type'], problem['msg'])}"
        for problem in error.errors()
    ]
    return failure(
        RequestRefused(422, "The request is not valid.", code="invalid", errors=problems)
    )


async def _on_ours(request: Request, error: Exception) -> Response:
    """Answer with the status of the error's class; with a page if a browser requested one."""
    assert isinstance(error, CrawlstreamError)
    return _refuse(request, _refusal_of(error))


def _refuse(request: Request, refused: RequestRefused) -> Response:
    """Return a refusal as a page if a browser requested one, otherwise as JSON."""
    if not wants_html(request):
        return failure(refused)
    details: Any = refused.details
    first = " ".join(filter(None, [str(refused), details.get("cause")]))
    return render(
        "problem.html",
        client=request.scope.get(CLIENT) or Client("anybody", Role.ANYONE),
        status=refused.status,
        code=refused.status,
        message="\n".join([first, *details.get("errors", ())]),
        is_unknown=details.get("code") == "unknown_crawl",
    )


def _refusal_of(error: CrawlstreamError) -> RequestRefused:
    match error:
        case RequestRefused():
            return error
        case InvalidRequest():
            return RequestRefused(
                422, "The request is not valid.", code=str(error.reason), errors=error.problems
            )
        case BadTable():
            return RequestRefused(422, str(error), code="bad_rule")
        case Conflict():
            return RequestRefused(409, str(error), code="conflict")
        case Unavailable():
            return RequestRefused(503, str(error), code="unavailable")
        case _:
            return RequestRefused(500, _UNEXPECTED, code=type(error).__name__)


async def _on_unexpected(_request: Request, _error: Exception) -> Response:
    """Answer 500; the log has the details."""
    return failure(RequestRefused(500, _UNEXPECTED))
