"""The client of crawlers that render: a browser fetches pages, libcurl everything else.

The counterpart of :class:`crawling.client.http_client.HttpClient`: it passes the same gate in the
same order and reports the same.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import structlog
from scrapy import Request
from scrapy.http import Response

from crawling.client.answer import response_of
from crawling.client.attempts import Attempts
from crawling.client.client_of import FetchClient
from crawling.client.curl_request import place_of
from crawling.egress.route import Route
from crawling.egress.routes import Routes
from crawling.egress.signatures import Signatures, is_ours
from crawling.failures import TransferFailed
from crawling.gateway.gateway import Gateway
from crawling.gateway.passes import GatewayPass
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.links.blacklist import Blacklist
from crawling.links.scope import RedirectRules
from crawling.metrics import (
    RENDER_ACTIONS,
    RENDER_REQUESTS,
    RENDER_SECONDS,
    RENDERS,
    SCREENSHOTS,
)
from crawling.net import trust
from crawling.page.page import Page, Screenshot
from crawling.page.scrapy_request import is_at_home
from crawling.render.browsers import Browsers
from crawling.render.cdp import BrowserGone
from crawling.render.cookies import cookies_of
from crawling.render.document import UNPACKED
from crawling.render.judge import Decision, FurtherRequest, Judge, Rests
from crawling.render.screenshot import TYPES
from crawling.render.tab import Tab
from crawling.render.visit import (
    BrowserVisit,
    LoadFailed,
    RenderedPage,
    RenderFailed,
    RenderOptions,
)
from crawling.response.charset import with_charset
from crawling.response.redirects import leads_on
from crawling.response.site_feedback import reported
from crawling.robots.request import ROBOTS
from crawlstream.boot.settings import Settings
from crawlstream.model.credentials import covers
from crawlstream.model.statuses import GATEWAY_ERRORS, RETRIED
from crawlstream.model.throttle_table import Reaction, SiteReaction
from crawlstream.model.url import origin_of

_TUNNELS = 256
"""Limit of tunnels, more than a browser opens."""
_FAILURES: Mapping[str, str] = {
    "ERR_CERT": "certificate",
    "ERR_SSL": "tls",
    "ERR_TOO_MANY_REDIRECTS": "bad_response",
    "ERR_INVALID": "bad_response",
    "ERR_RESPONSE": "bad_response",
    "ERR_CONTENT": "bad_encoding",
    "ERR_TIMED_OUT": "timeout",
    "ERR_CONNECTION_TIMED_OUT": "timeout",
    "TimedOut": "timeout",
}
"""Reasons of ``page_failed``, by the prefix of the browser's error code."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """The parts of rendering that live as long as the process."""

    browsers: Browsers
    gateway: Callable[[], Gateway]
    routes: Routes | None
    leases: Leases
    blacklist: Blacklist
    redirects: RedirectRules
    allows: Callable[[Page, str], Awaitable[bool]]
    """True if robots.txt allows a further request of a page to its own origin."""
    settings: Settings
    lane: str
    rests: Rests
    signatures: Signatures | None = None
    """Signs all requests; None: they leave unsigned."""

    def over(self, plain: FetchClient) -> RenderingClient:
        """Return a client that uses ``plain`` for requests that are not for a browser."""
        return RenderingClient(self, plain)


class RenderingClient:
    """The browser behind the gate."""

    def __init__(self, renderer: Renderer, plain: FetchClient) -> None:
        self._renderer = renderer
        self._plain = plain
        self._leases = renderer.leases
        self._settings = renderer.settings

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request; GrantExpired, AddressRefused, or the error of the download."""
        is_file = page.lease.entry.is_sitemap or page.is_lent
        is_for_browser = request.method == "GET" and not is_file
        if ROBOTS in request.meta or request.body or not is_for_browser:
            return await self._plain.fetch(request, page)
        self._leases.set_out(page, request.url)
        host, port = place_of(request.url)
        routes = self._renderer.routes
        pool = await routes.pool_for(page, host, port) if routes else None

        async def send(route: Route | None) -> Response:
            if route is None and self._leases.machines.count(page):
                # The gateway connects to the others only if the first one does not answer.
                addresses = await self._renderer.gateway().resolve(host, port)
                self._leases.machines.covered(page, addresses[:1])
            return await self._render(request, page, route)

        download = Attempts(routes).run(pool, page, send) if routes and pool else send(None)
        return await reported(download, page, self._leases)

    def close(self) -> None:
        """Close all connections; the browsers end with the worker."""
        self._plain.close()

    async def _render(self, request: Request, page: Page, route: Route | None) -> Response:
        began, outcome = time.monotonic(), "failed"
        page.tls = None  # robots.txt may have been fetched with a profile
        judge = self._judge_of(page)
        judge.let_go(request.url)
        depart = _Departure(page, self._leases, judge)
        most = self._settings.render_bytes
        try:
            with self._renderer.gateway().admit(
                route, most_bytes=most, most_tunnels=_TUNNELS, before_send=depart
            ) as way_out:
                try:
                    made = await self._made(request, page, judge, way_out)
                except TransferFailed:
                    if depart.error:
                        raise depart.error from None
                    raise
                outcome = _outcome_of(made)
                page.screenshot = _screenshot_of(page, made)
                if made.sent is not None:
                    page.sent_document = with_charset(
                        _response(request, replace(made, body=made.sent, is_rendered=False))
                    )
                if made.is_rendered:
                    page.render = {
                        "requests": judge.sent,
                        "blocked": judge.refused,
                        "bytes": way_out.received,
                        "ms": int((time.monotonic() - began) * 1000),
                        "complete": made.is_complete,
                        **_acted(made),
                    }
            return _response(request, made)
        except GrantExpired:
            outcome = "released"
            raise
        finally:
            RENDERS.labels(self._renderer.lane, outcome).inc()
            RENDER_SECONDS.labels(self._renderer.lane).observe(time.monotonic() - began)

    async def _made(
        self, request: Request, page: Page, judge: Judge, way_out: GatewayPass
    ) -> RenderedPage:
        renderer = self._renderer
        visit = self._visit(request, page, judge, way_out)
        try:
            async with (
                renderer.browsers.one() as browser,
                browser.context(f"http://{renderer.gateway().address}") as context,
            ):
                made = await Tab(browser.pipe, visit, browser.camera).make(context)
        except BrowserGone as error:
            raise RenderFailed(str(error)) from error
        except LoadFailed as error:
            known = way_out.failure_of(*place_of(request.url))
            raise (known or _failure(error)) from error
        if _is_gateways(made):
            known = way_out.failure_of(*place_of(request.url))
            raise known or TransferFailed("connection_lost", "the connection broke")
        return made

    def _visit(
        self, request: Request, page: Page, judge: Judge, way_out: GatewayPass
    ) -> BrowserVisit:
        settings, meta, signatures = self._settings, request.meta, self._renderer.signatures
        if signatures:
            signatures.leave_out(request, page)
        headers = {
            name.decode("latin-1").lower(): values[-1].decode("latin-1")
            for name, values in dict.items(request.headers)
            if values
        }
        agent = headers.get("user-agent", "")
        return BrowserVisit(
            url=request.url,
            headers=headers,
            headers_for=partial(_headers_of, page, signatures),
            signed=partial(signatures.headers, page) if signatures else _unsigned,
            cookies=cookies_of(page, request.url, headers.get("cookie", "")),
            user_agent="" if agent == settings.user_agent else agent,
            must_prove=trust.must_prove(request, page.lease, settings.download_verify_certificates),
            options=RenderOptions.of(page.lease.profile.render),
            user=way_out.user,
            password=way_out.password,
            first_s=meta.get("download_timeout") or settings.download_timeout,
            ready_s=settings.render_timeout,
            most_bytes=meta.get("download_maxsize", settings.download_max_bytes),
            is_rendered=lambda status, _headers: status not in RETRIED,
            may_move=lambda url: (
                settings.metarefresh_enabled and leads_on(page, url, self._renderer.redirects)
            ),
            on_head=partial(self._begun, page),
            judge=partial(_judged, judge),
            on_answer=partial(_heard, judge, page),
        )

    def _begun(self, page: Page) -> None:
        page.head_at = self._leases.clock()
        self._leases.departed(page)

    def _judge_of(self, page: Page) -> Judge:
        settings, renderer = self._settings, self._renderer
        table = renderer.blacklist.table
        if table is None:
            raise GrantExpired
        url = page.lease.entry.url
        options = RenderOptions.of(page.lease.profile.render)
        types, wished = frozenset(settings.render_types), options.types
        if options.screenshot and "render_types" not in settings.model_fields_set:
            types |= TYPES
        return Judge(
            origin=origin_of(url),
            site=table.site_of(url),
            table=table,
            types=types if wished is None else types & frozenset(wished),
            most=settings.render_requests,
            robots=partial(renderer.allows, page),
            rests=renderer.rests,
            may_send=lambda: page.is_open and self._leases.may_send(page),
        )


class Unasked(GrantExpired):
    """The judge has not allowed the request."""


class _Departure:
    """Checks that the judge allowed each way out of a page; the first one spends the grant."""

    def __init__(self, page: Page, leases: Leases, judge: Judge) -> None:
        self._page = page
        self._leases = leases
        self._judge = judge
        self.error: GrantExpired | None = None
        """Error because of which the document was not requested."""

    def __call__(self, host: str, port: int) -> None:
        if not self._judge.spend(host, port):
            RENDER_REQUESTS.labels("unasked").inc()
            raise Unasked(f"{host}:{port}")
        if self._page.phase.is_unsent:
            try:
                self._leases.depart(self._page)
            except GrantExpired as error:
                self.error = error
                raise


async def _judged(judge: Judge, asked: FurtherRequest) -> Decision:
    verdict = await judge.verdict(asked)
    if verdict is not Decision.INSIDE:
        RENDER_REQUESTS.labels(verdict).inc()
    judge.refused += not verdict.may_leave
    return verdict


def _outcome_of(made: RenderedPage) -> str:
    if not made.is_rendered:
        return "plain"
    return "rendered" if made.is_complete else "incomplete"


def _acted(made: RenderedPage) -> Mapping[str, object]:
    """Return the effects of actions, as the result has them; nothing where there are none."""
    for effect in made.actions:
        RENDER_ACTIONS.labels(effect.get("error", "done")).inc()
    return {"actions": made.actions} if made.actions else {}


def _screenshot_of(page: Page, made: RenderedPage) -> Screenshot | None:
    """Return the picture of a page, or why there is none; None: its crawl does not want one."""
    if not RenderOptions.of(page.lease.profile.render).screenshot:
        return None
    made_of_it = made.screenshot or Screenshot({"error": "not_rendered"})
    SCREENSHOTS.labels(made_of_it.told.get("error", "taken")).inc()
    return made_of_it


def _is_gateways(made: RenderedPage) -> bool:
    """Return whether the gateway answered; a site that imitates it harms only itself."""
    told = (value for name, value in made.headers if name.lower() == "proxy-status")
    return made.status in GATEWAY_ERRORS and any(value.startswith("crawlstream") for value in told)


def _headers_of(
    page: Page, signatures: Signatures | None, asked: FurtherRequest
) -> Mapping[str, str]:
    own = _own_headers(page, asked.url)
    if signatures is None:
        return own
    ours = {name: value for name, value in own.items() if not is_ours(name.encode())}
    return {**ours, **signatures.headers(page, asked.url, asked.method)}


def _own_headers(page: Page, url: str) -> Mapping[str, str]:
    """Return the headers of the crawl, which are sent only to its own site."""
    profile = page.lease.profile
    if not profile.headers or not is_at_home(page.lease):
        return {}
    with suppress(ValueError):
        if profile.site is None or covers(profile.site, url):
            return profile.headers
    return {}


def _unsigned(_url: str) -> Mapping[str, str]:
    return {}


def _heard(judge: Judge, page: Page, url: str, status: int) -> None:
    """Note the answer to a further request; a refusal by the page's own site counts for it."""
    if judge.answered(url, status):
        page.refused = SiteReaction(Reaction.REFUSAL)


def _failure(error: LoadFailed) -> Exception:
    code = error.code.removeprefix("net::")
    reason = next((_FAILURES[each] for each in _FAILURES if code.startswith(each)), "")
    return TransferFailed(reason or "connection_lost", code)


def _response(request: Request, made: RenderedPage) -> Response:
    """Return the Scrapy response: the document's head, with the DOM as its body."""
    lines = [b"HTTP/1.1 %d" % made.status]
    lines += [
        f"{name}: {part}".encode("latin-1", "replace")
        for name, value in made.headers
        if name.lower() not in UNPACKED
        for part in value.split("\n")
    ]
    response = response_of(request, lines, made.body, "", flags=[])
    return response.replace(encoding="utf-8") if made.is_rendered else response
