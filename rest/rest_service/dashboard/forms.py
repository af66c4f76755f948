"""Forms of the dashboard: the fields that a browser sends become a request to ``/v2``.

The life of a form
    ``/ui/do/v2/…`` takes the fields of a form. It makes the body for ``/v2/…`` and calls that
    route of the application as the same client: the route checks permissions and writes the audit
    log. A script gets the answer unchanged. A browser without scripts first shows a question to
    confirm, and is then redirected (303) to the screen that shows the effect and the outcome. If
    there are problems, it gets the form again, with its input and each problem next to its field.

The gate applies the rules of ``/v2/…`` to ``/ui/do/v2/…``, and refuses forms of other sites.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import UploadFile
from starlette.types import Message

from crawlstream.errors import Unavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.request import Steering
from crawlstream.tasks import wait_until
from rest_service.dashboard import cluster, rejected, submit
from rest_service.dashboard.fields import Body, ChosenFile, Typed, body_of, records_of, seeds_of
from rest_service.dashboard.outcome import with_outcome
from rest_service.dashboard.render import path_of, render
from rest_service.http.access import FORMS
from rest_service.http.envelope import JSON, RequestRefused
from rest_service.http.gate import CLIENT
from rest_service.http.inputs import wants_html
from rest_service.service import Service, TheClient, TheService
from rest_service.v2.schedules import Steering as Firing

_MOST_FIELDS = 2_000
"""Fields that a form may have: a screen of rejected records has 500."""
_KNOWN_S = 3.0
"""Seconds to wait until a crawl that was just fed is known."""
_PLACE = re.compile(r"(?:seed \d+: )?(?:\$\.|body\.)(\w+)")
"""The field that a problem of the API is about."""

router = APIRouter(prefix=FORMS, include_in_schema=False)

Again = Callable[[Mapping[str, str], int], Awaitable[Response]]
"""A form once more, with its problems by field ("" for none in particular) and a status."""


class FormRequest(NamedTuple):
    """A request to ``/v2`` made from a form, and the screen that follows."""

    method: str
    path: str
    make: Callable[[Typed], Body]
    """Makes its body; raises RequestRefused (422)."""
    back: str
    """The screen that shows the effect."""
    word: str
    """The outcome, a word of ``outcome``."""
    counted: str = ""
    """Name of the number in the answer that is shown with the outcome."""
    again: Again | None = None
    """Shows the form again; without it, problems are shown on a screen of their own."""


async def _read(request: Request, service: TheService) -> Typed:
    """Return the content of a form; raise HTTPException (400) if the body is not a form."""
    most = service.settings.rest_max_body_bytes
    texts: dict[str, list[str]] = {}
    file, has_file = None, False
    async with request.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=most) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                has_file = True
                file = ChosenFile(value.filename, await value.read()) if value.filename else None
            else:
                # Browsers end lines with CR LF.
                texts.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return Typed(texts, file, has_file)


TheTyped = Annotated[Typed, Depends(_read)]


@router.post("/v2/crawls")
async def feed(
    request: Request, service: TheService, client: TheClient, typed: TheTyped
) -> Response:
    """Start a crawl from URLs, a file, or the text of a request."""

    async def again(wrong: Mapping[str, str], status: int) -> Response:
        if place := typed.text("_record"):
            raw = typed.text("raw")
            return await rejected.screen(
                service, client, place, raw=raw, wrong=wrong, status=status
            )
        told = {"file": _rows(wrong)} if typed.has_file else wrong
        values = typed.firsts()
        return await submit.screen(service, client, values=values, wrong=told, status=status)

    asked = FormRequest("POST", "/v2/crawls", seeds_of, "/ui/crawls", "fed", "fed", again)
    return await _do(request, service, typed, asked)


@router.post("/v2/check")
async def check(request: Request, service: TheService, typed: TheTyped) -> Response:
    """Check the seeds of a form, for scripts; feed nothing."""
    asked = FormRequest("POST", "/v2/check", seeds_of, "/ui/submit", "checked")
    return await _do(request, service, typed, asked)


@router.post("/v2/rejected/replay")
async def replay(request: Request, service: TheService, typed: TheTyped) -> Response:
    """Feed rejected records again."""
    path = "/v2/rejected/replay"
    asked = FormRequest("POST", path, records_of, "/ui/rejected", "replayed", "replayed")
    return await _do(request, service, typed, asked)


@router.post("/v2/crawl/{verb}")
async def steer(verb: Steering, request: Request, service: TheService, typed: TheTyped) -> Response:
    """Stop, pause, resume or reprioritize a crawl."""
    named = (typed.text("spiderid") or "link", typed.text("appid"), typed.text("crawlid"))
    back = path_of(CrawlKey(*named))
    return await _do(
        request, service, typed, FormRequest("POST", f"/v2/crawl/{verb}", body_of, back, verb)
    )


@router.post("/v2/throttle/rules")
async def set_rule(
    request: Request, service: TheService, client: TheClient, typed: TheTyped
) -> Response:
    """Set the rule of a domain, or remove it."""

    async def again(wrong: Mapping[str, str], status: int) -> Response:
        values = typed.firsts()
        return await cluster.rule_screen(service, client, typed=values, wrong=wrong, status=status)

    asked = _of_domain(typed, "rules", ("set-rule", "remove-rule"))
    return await _do(request, service, typed, asked._replace(again=again))


@router.post("/v2/throttle/blacklist")
async def block(request: Request, service: TheService, typed: TheTyped) -> Response:
    """Block a domain, or unblock it."""
    return await _do(request, service, typed, _of_domain(typed, "blacklist", ("block", "unblock")))


@router.post("/v2/proxies/{verb}")
async def ban(
    verb: Literal["ban", "unban"], request: Request, service: TheService, typed: TheTyped
) -> Response:
    """Ban a proxy, or end its ban."""
    asked = FormRequest("POST", f"/v2/proxies/{verb}", body_of, "/ui/proxies", verb)
    return await _do(request, service, typed, asked)


@router.post("/v2/purses/{name}/adopt")
async def adopt(name: str, request: Request, service: TheService, typed: TheTyped) -> Response:
    """Let a purse pay again."""
    path = f"/v2/purses/{name}/adopt"
    asked = FormRequest("POST", path, body_of, "/ui/purses", "adopt")
    return await _do(request, service, typed, asked)


@router.post("/v2/processes/{name}/drain")
async def drain(name: str, request: Request, service: TheService, typed: TheTyped) -> Response:
    """Drain a crawler: it finishes its pages in flight, and ends."""
    path = f"/v2/processes/{name}/drain"
    back = f"/ui/process?{urlencode({'name': name})}"
    return await _do(request, service, typed, FormRequest("POST", path, body_of, back, "drain"))


@router.post("/v2/schedules/{appid}/{name}/{verb}")
async def fire(
    appid: str, name: str, verb: Firing, *, request: Request, service: TheService, typed: TheTyped
) -> Response:
    """Pause or resume a schedule, or have it fire once."""
    path = f"/v2/schedules/{appid}/{name}/{verb}"
    return await _do(
        request, service, typed, FormRequest("POST", path, body_of, "/ui/schedules", verb)
    )


def _of_domain(typed: Typed, table: str, words: tuple[str, str]) -> FormRequest:
    """Return a change of a domain's rule or block: set, or removed if the form has ``DELETE``."""
    is_removed = typed.text("_method") == "DELETE"
    name = typed.text("domain").strip()

    def make(typed: Typed) -> Body:
        if not name or "/" in name:
            told = "body.domain: must be a domain such as example.com, without http:// and path"
            raise RequestRefused(422, "The request is not valid.", code="invalid", errors=[told])
        return body_of(typed, without=["domain"])

    back = f"/ui/domains?{urlencode({'name': name})}"
    method = "DELETE" if is_removed else "PUT"
    return FormRequest(method, f"/v2/throttle/{table}/{name}", make, back, words[is_removed])


async def _do(request: Request, service: Service, typed: Typed, asked: FormRequest) -> Response:
    """Call the API and redirect to the outcome; a script gets the answer unchanged."""
    if not wants_html(request):
        return await _ask(request, asked, asked.make(typed))
    if question := typed.text("_ask"):
        return _confirm(request, typed, asked, question)
    try:
        told = _told(await _ask(request, asked, asked.make(typed)))
    except RequestRefused as refused:
        if asked.again is None:
            raise
        return await asked.again(_wrong(refused), refused.status)
    if "poll_id" in told:
        return RedirectResponse(with_outcome(asked.back, "later"), 303)
    back = await _screen_of(service, told["crawls"][0]) if "crawls" in told else asked.back
    word = f"{asked.word}-skipped" if told.get("outcome") == "skipped" else asked.word
    where = with_outcome(back, word, told.get(asked.counted))
    return RedirectResponse(where, 303)


def _confirm(request: Request, typed: Typed, asked: FormRequest, question: str) -> Response:
    """Return the question of a form, with the form again but without the question."""
    fields = [
        (name, text) for name, texts in typed.texts.items() if name != "_ask" for text in texts
    ]
    path = quote(request.url.path)
    return render(
        "confirm.html",
        client=request.scope[CLIENT],
        question=question,
        action=path,
        fields=fields,
        back=asked.back,
    )


async def _ask(request: Request, asked: FormRequest, body: Body) -> Response:
    """Return the answer of a route of the application to the client that sent the form."""
    kept = ("type", "asgi", "http_version", "scheme", "server", "client", "root_path", CLIENT)
    headers = {"content-type": body.kind, "accept": JSON, "content-length": len(body.content)}
    scope = {
        **{name: request.scope[name] for name in kept if name in request.scope},
        "method": asked.method,
        "path": asked.path,
        "raw_path": quote(asked.path).encode(),
        "query_string": b"",
        "headers": [(name.encode(), str(value).encode()) for name, value in headers.items()],
    }
    status, content = 500, bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": body.content, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            content.extend(message.get("body", b""))

    await request.app(scope, receive, send)
    return Response(bytes(content), status, media_type=JSON)


def _told(answer: Response) -> Mapping[str, Any]:
    """Return the data of an answer; raise RequestRefused if it is a failure."""
    told = orjson.loads(answer.body)
    if error := told["error"]:
        raise RequestRefused(
            answer.status_code,
            error["message"],
            code=error.get("code"),
            cause=error.get("cause"),
            errors=error.get("errors", ()),
        )
    return told["data"] if isinstance(told["data"], dict) else {}


def _wrong(refused: RequestRefused) -> Mapping[str, str]:
    """Return the problems of a refusal, each by its field."""
    details: Any = refused.details
    cause = details.get("cause")
    problems = details.get("errors") or [f"{refused} {cause}" if cause else str(refused)]
    found: dict[str, list[str]] = {}
    for problem in problems:
        named = _PLACE.match(problem)
        field = named[1] if named else ""
        text = problem.replace("$.", "").replace("body.", "")
        found.setdefault("urls" if field == "url" else field, []).append(text)
    return {name: "\n".join(texts) for name, texts in found.items()}


def _rows(wrong: Mapping[str, str]) -> str:
    """Return the problems of a file, whose seeds are rows."""
    return re.sub(r"^seed (\d+): ", r"row \1: ", "\n".join(wrong.values()), flags=re.MULTILINE)


async def _screen_of(service: Service, named: Mapping[str, str]) -> str:
    """Return the screen of a new crawl as soon as it is known; else a search for it."""
    key = CrawlKey(**named)

    async def is_known() -> bool:
        return await service.frontier.queries.crawl_state(key, with_domains=False) is not None

    try:
        await wait_until(is_known, timeout_s=_KNOWN_S)
    except (TimeoutError, Unavailable):
        return f"/ui/crawls?{urlencode({'q': key.crawlid})}"
    return path_of(key)
