"""``crawlstream map``: the URLs of a site, by the REST service."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import typer

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.wire import jsontext
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_cli.common.words import counted, in_words

KEY = "CRAWLSTREAM_API_KEY"
LATE = 5
"""Exit code: the list was not made in time."""
_WAIT_S = 20
"""Seconds of one call to REST."""


class UrlSource(StrEnum):
    """Where URLs are looked for."""

    ROBOTS = "robots"
    SITEMAPS = "sitemaps"
    LINKS = "links"
    FRONTIER = "frontier"


def map_site(
    url: Annotated[str, typer.Argument(metavar="URL", help="Page of the site.")],
    *,
    match: Annotated[
        str, typer.Option("--match", help="Regular expression (RE2) that URLs contain.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=50_000, help="Maximum number of URLs.")] = 5000,
    source: Annotated[
        list[UrlSource] | None,
        typer.Option(
            "--source",
            help="Where to look: sitemaps that robots.txt names, or else the usual one; links of"
            " the page; pages that wait in the frontier. Repeatable. [default: all but the"
            " frontier]",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each URL with its sources, as a line of JSON.")
    ] = False,
    as_seeds: Annotated[
        bool, typer.Option("--seeds", help="Print requests for `crawlstream feed -`.")
    ] = False,
    wait: Annotated[int, typer.Option(min=1, max=3600, help="Seconds to wait.")] = 300,
    rest: Annotated[
        str, typer.Option(metavar="URL", help="REST service. [default: of this cluster]")
    ] = "",
) -> None:
    """List the URLs of a site: of its sitemaps, and of the links of a page.

    Its files are fetched by the cluster, within the limits of the site; `--source frontier` alone
    fetches nothing. URLs that have changed last come first. If REST needs a key, set
    CRAWLSTREAM_API_KEY.

    Exit code 0: the list is complete; 3: some of it is missing (stderr says what); 5: it was not
    made in time.

    Example: crawlstream map https://docs.example.com/ --match /guide/
    """
    if as_json and as_seeds:
        raise ConfigError("--json and --seeds: choose one")
    if rest and not rest.startswith(("http://", "https://")):
        raise ConfigError("--rest: must begin with http:// or https://")
    service = _Rest(rest or f"http://127.0.0.1:{load_settings().rest_port}")
    order: dict[str, object] = {"url": url, "match": match, "limit": limit}
    order |= {"wait": min(wait, _WAIT_S)} | ({"sources": [*source]} if source else {})
    made = _made(service, order, until=time.monotonic() + wait)
    if made is None:
        stderr_console().print(f"no list within {wait} s: set a larger --wait", highlight=False)
        raise typer.Exit(LATE)
    _print(made["urls"], as_json=as_json, as_seeds=as_seeds)
    raise typer.Exit(_problems(made))


class _Rest:
    """Calls a REST service."""

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")
        # A proxy of the environment is for the internet, not for the cluster.
        self._opener = build_opener(ProxyHandler({}))

    def call(self, path: str, body: Mapping[str, object] | None = None) -> tuple[int, Any]:
        """Return status and data; CrawlstreamError says what REST refuses."""
        raw = jsontext.dumps(body) if body is not None else None
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(KEY):
            headers["X-API-Key"] = key
        try:
            # Only http and https: an operator's own URL, checked by the caller.
            request = Request(self._base + path, raw, headers)  # noqa: S310
            with self._opener.open(request, timeout=_WAIT_S + 30) as answer:
                return answer.status, _value(answer.read())["data"]
        except HTTPError as error:
            raise CrawlstreamError(_refusal(error)) from error
        except (URLError, OSError, ValueError) as error:
            raise CrawlstreamError(
                f"the REST service at {self._base} does not answer: start it (`{COMMAND} up -d`),"
                " or name another one with --rest"
            ) from error


def _value(raw: bytes) -> Any:
    value = jsontext.loads(raw)
    if not isinstance(value, dict) or "data" not in value:
        raise ValueError("not an answer of REST")
    return value


def _refusal(error: HTTPError) -> str:
    """Return REST's sentence, with what a person can do."""
    try:
        told = _value(error.read())["error"]
        sentence = "; ".join([told["message"], *told.get("errors", ())])
    except (ValueError, KeyError, TypeError, OSError):
        sentence = f"status {error.code}"
    advice = f" Set {KEY} to a key with the role submit." if error.code in {401, 403} else ""
    return f"REST refuses: {in_words(sentence)}{advice}"


def _made(service: _Rest, order: Mapping[str, object], *, until: float) -> Any:
    """Return the list; None: not in time."""
    status, data = service.call("/v2/map", order)
    while status == 202:
        left_s = int(until - time.monotonic())
        if left_s <= 0:
            return None
        status, data = service.call(f"/v2/map/{data['id']}?wait={min(left_s, _WAIT_S)}")
    return data


def _print(urls: Sequence[Mapping[str, Any]], *, as_json: bool, as_seeds: bool) -> None:
    for one in urls:
        value = one if as_json else {"url": one["url"]}
        print_line(jsontext.dumps(value).decode() if as_json or as_seeds else one["url"])


def _problems(made: Mapping[str, Any]) -> int:
    """Write on stderr what is missing of a list; return the exit code."""
    if made["complete"]:
        return 0
    console = stderr_console()
    if more := made["total"] - len(made["urls"]):
        console.print(f"{counted(more, 'URL')} beyond --limit", highlight=False)
    for reason, count in made["cut"].items():
        console.print(f"{reason}: {count}", highlight=False, markup=False)
    for problem in made["problems"]:
        console.print(in_words(problem), highlight=False, markup=False, soft_wrap=True)
    return 3
