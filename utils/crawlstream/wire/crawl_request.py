"""Checks of a crawl request beyond its schema: its seed, expressions and headers must work."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from crawlstream.errors import InvalidRequest, InvalidUrl
from crawlstream.model.crawl import ANSWER_ACCEPTED, ANSWER_PAGE
from crawlstream.model.egress.render import VERBS, is_lane, render_wish
from crawlstream.model.egress.tls import refusal
from crawlstream.model.expressions import MOST, characters
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.recurring.validators import is_http_date
from crawlstream.model.request import LATEST, CrawlRequest, Refusal, RequestLimits
from crawlstream.model.url import host_rule, seed_url
from crawlstream.model.web.priority_fields import priority_rules
from crawlstream.model.web.url_parameters import parameters_in
from crawlstream.wire import jsontext

_EXPRESSIONS = frozenset({"allow_regex", "deny_regex"})
_PAIRS = frozenset({"headers", "cookies"})
_UNLIMITED = frozenset(
    {"domain_max_pages", "max_pages", "max_seconds", "max_bytes", "domain_max_bytes"}
)
"""Fields in which 0 means null."""
_TIMES = frozenset({"expires", "not_before"})
_CONDITIONS = ("etag", "last_modified")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that end a header or are control characters; a tab is allowed."""
_NOT_IN_COOKIE = re.compile(r"[\x00-\x1f\x7f;]")
_LONGEST_VALUE = 8192
"""Characters of a value; servers refuse longer header lines."""

_RESERVED = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that belong to the connection and not to the client, as do all of ``proxy-*``."""


def crawl_request(fields: Mapping[str, Any], limits: RequestLimits) -> CrawlRequest:
    """Return the request of an object that fits the schema; ``fields`` is not changed.

    Raise InvalidRequest with all problems of one kind.
    """
    values: dict[str, Any] = {
        name: tuple(value) if type(value) is list else value for name, value in fields.items()
    }
    _check_bounds(values, limits)
    try:
        values["url"] = seed_url(values["url"])
    except InvalidUrl as error:
        raise InvalidRequest(Refusal.BAD_URL, [f"$.url: {error}"]) from error
    if values.get("allowed_domains"):
        values["allowed_domains"] = _hosts(values["allowed_domains"])
    if values.get("priorities"):
        values["priorities"] = priority_rules(values["priorities"])
    if values.get("parameters") is not None:
        values["parameters"] = parameters_in(values["parameters"])
    if not _EXPRESSIONS.isdisjoint(values):
        _refuse_if(Refusal.BAD_REGEX, _bad_expressions(values, limits))
    if not _PAIRS.isdisjoint(values):
        _refuse_if(Refusal.BAD_HEADER, _bad_pairs(values, limits))
    check_conditions(values)
    _check_render(values)
    _check_tls(values, limits)
    _refuse_if(Refusal.BAD_REQUEST, _lacking(values))
    _make_plain(values)
    return CrawlRequest(**values)


def _lacking(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield why fields say nothing without others."""
    if values.get("max_price") and not values.get("purse"):
        yield "$.max_price: needs `purse`: without one, nothing is paid"
    if "reserved" in (values.get("drop") or ()) and not values.get("purpose"):
        yield "$.drop: `reserved` needs `purpose`: pages are reserved for a purpose"
    if values.get("sitemaps") and not values.get("maxdepth"):
        yield "$.sitemaps: needs a `maxdepth` of at least 1: pages of sitemaps are below the seed"
    if values.get("requisites") and not values.get("archive"):
        yield "$.requisites: needs `archive`: requisites are for archives of exact responses"
    if values.get("answer", ANSWER_ACCEPTED) == ANSWER_PAGE:
        if not values.get("uuid"):
            yield "$.answer: `page` needs `uuid`: the reply has it"
        if values.get("occasion"):
            yield "$.answer: `page` excludes `occasion`: a repetition is not fetched"


def _hosts(written: Iterable[str]) -> tuple[str, ...]:
    """Return hosts in the spelling of links; raise InvalidRequest with all invalid ones."""
    hosts: dict[str, None] = {}
    problems = []
    for number, text in enumerate(written):
        try:
            hosts[host_rule(text)] = None
        except InvalidUrl as error:
            problems.append(f"$.allowed_domains[{number}]: {error}")
    _refuse_if(Refusal.BAD_REQUEST, problems)
    return tuple(hosts)


def check_conditions(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if the validators of a page cannot be used in its request."""
    date = values.get("last_modified")
    if date is not None and not is_http_date(date):
        problem = (
            "$.last_modified: must be an HTTP date, as the site has sent it"
            " (Sun, 06 Nov 1994 08:49:37 GMT)"
        )
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])
    if values.get("method", "GET") in {"GET", "HEAD"}:
        return
    told = [f"$.{name}: needs the method GET or HEAD" for name in _CONDITIONS if values.get(name)]
    _refuse_if(Refusal.BAD_REQUEST, told)


def _make_plain(values: dict[str, Any]) -> None:
    """Reduce values that clients may write in several forms to one form."""
    for name in _UNLIMITED & values.keys():
        values[name] = values[name] or None
    for name in _TIMES & values.keys():
        values[name] = max(min(values[name] or 0, LATEST), -LATEST)
    if "render" in values:
        values["render"] = render_wish(values["render"])
    if values.get("occasion"):
        values["occasion"] = Occasion(**values["occasion"])


def _check_render(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a request that a browser cannot send, or one that names a lane."""
    if is_lane(values.get("spiderid", "")):
        problem = "$.spiderid: crawlers with a browser are not named: send `render`: true"
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])
    wish = render_wish(values.get("render"))
    if wish is not None and values.get("method", "GET") != "GET":
        raise InvalidRequest(Refusal.BAD_REQUEST, ["$.render: needs the method GET"])
    if wish and wish.get("auto") and not wish.keys().isdisjoint(("screenshot", "actions")):
        problem = "$.render: `auto` excludes `screenshot` and `actions`: these need a browser"
        raise InvalidRequest(Refusal.BAD_REQUEST, [f"{problem} for every page"])
    _refuse_if(Refusal.BAD_REQUEST, _bad_actions((wish or {}).get("actions", ())))


def _bad_actions(actions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why actions in a page are not what a browser can do."""
    for number, action in enumerate(actions):
        path, verbs = f"$.render.actions[{number}]", [verb for verb in VERBS if verb in action]
        if len(verbs) != 1:
            yield f"{path}: needs exactly one of {', '.join(VERBS)}"
            continue
        (verb,), needed = verbs, VERBS[verbs[0]]
        known = {verb, *needed, *(("times",) if verb == "click" else ())}
        yield from (f"{path}: `{verb}` needs `{each}`" for each in needed if each not in action)
        yield from (f"{path}: `{verb}` has no `{each}`" for each in action if each not in known)


def _check_tls(values: Mapping[str, Any], limits: RequestLimits) -> None:
    """Raise InvalidRequest if a TLS profile is not allowed in the cluster or for a browser."""
    name = values.get("tls")
    if name is None:
        return
    if problem := refusal(name, limits.tls_profiles):
        raise InvalidRequest(Refusal.BAD_REQUEST, [f"$.tls: {problem}"])
    if render_wish(values.get("render")) is not None:
        problem = "$.tls: a browser has a TLS of its own: leave out `tls` or `render`"
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])


def _check_bounds(values: Mapping[str, Any], limits: RequestLimits) -> None:
    if values.get("maxdepth", 0) > limits.max_depth:
        problem = (
            f"$.maxdepth: must be at most {limits.max_depth} in this cluster"
            " (CRAWLSTREAM_MAX_DEPTH)"
        )
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])
    if (values.get("remember") or 0) > limits.max_remember:
        problem = (
            f"$.remember: must be at most {limits.max_remember} seconds in this cluster"
            " (CRAWLSTREAM_MAX_REMEMBER)"
        )
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])
    attrs = values.get("attrs")
    if attrs and (size := len(jsontext.dumps(attrs))) > limits.max_attrs_bytes:
        problem = (
            f"$.attrs: its size is {size} bytes; the maximum is {limits.max_attrs_bytes}"
            " (CRAWLSTREAM_MAX_ATTRS_BYTES)"
        )
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])


def _refuse_if(reason: Refusal, problems: Iterable[str]) -> None:
    listed = list(problems)
    if listed:
        raise InvalidRequest(reason, listed)


def _bad_expressions(values: Mapping[str, Any], limits: RequestLimits) -> Iterator[str]:
    left = MOST
    for name in sorted(_EXPRESSIONS):
        expressions = values.get(name) or ()
        if len(expressions) > limits.max_expressions:
            yield f"$.{name}: must have at most {limits.max_expressions} expressions"
            continue
        for number, expression in enumerate(expressions):
            if len(expression) > limits.max_expression_length:
                yield (
                    f"$.{name}[{number}]: must have at most {limits.max_expression_length}"
                    " characters"
                )
            elif (left := left - characters(expression)) < 0:
                yield (
                    f"$.{name}[{number}]: the character sets up to this expression are too large"
                    " to compile"
                )
                return
            elif problem := _expression_problem(expression):
                yield f"$.{name}[{number}]: {problem}"


@lru_cache(maxsize=4096)
def _expression_problem(expression: str) -> str:
    """Return why an expression does not compile, or ""; cached, as seeds of a crawl repeat it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(expression)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        return f"not a valid regular expression ({str(error)[:100]})"
    return ""


def _bad_pairs(values: Mapping[str, Any], limits: RequestLimits) -> Iterator[str]:
    for field in sorted(_PAIRS):
        pairs = values.get(field) or {}
        if len(pairs) > limits.max_headers:
            yield f"$.{field}: must have at most {limits.max_headers} entries"
            continue
        forbidden = _NOT_IN_COOKIE if field == "cookies" else _CONTROL
        for name, value in pairs.items():
            if not _TOKEN.fullmatch(name):
                yield f"$.{field}: {name[:100]!r} is not a valid name"
            elif field == "headers" and _is_reserved(name.lower()):
                yield f"$.{field}: {name!r} is set by the HTTP connection and must not be given"
            elif len(value) > _LONGEST_VALUE:
                yield f"$.{field}.{name}: must have at most {_LONGEST_VALUE} characters"
            elif forbidden.search(value):
                yield f"$.{field}.{name}: contains a character that is not allowed in its value"


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or name.startswith("proxy-")
