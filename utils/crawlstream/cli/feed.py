"""``crawlstream feed``: requests of all four kinds into the incoming topic, one or millions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.cli.ask import as_record, open_sink
from crawlstream.cli.console import say, stderr_console
from crawlstream.errors import CrawlstreamError, InvalidRequest, KafkaUnavailable
from crawlstream.model.request import Refusal
from crawlstream.wire.tables import read_table

_BATCH = 1000
"""Requests between two acknowledgements; as many may be fed twice by who goes on after a fault."""

Request = Mapping[str, Any]


def feed(
    source: Annotated[
        str,
        typer.Argument(
            metavar="JSON|FILE|-", help="A request, a file of requests, or - for stdin."
        ),
    ],
    *,
    is_csv: Annotated[
        bool, typer.Option("--csv", help="Read the input as CSV; implied for files named *.csv.")
    ] = False,
    skip: Annotated[
        int, typer.Option(min=0, help="Skip this many requests at the start (already fed).")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one line of JSON.")
    ] = False,
) -> None:
    """Send crawl, action, stats or zookeeper requests to the cluster.

    A file contains one JSON object per line, or one JSON document (an object or an array of
    objects), or a CSV table of crawl requests. The first row of a table names the fields; lists are
    separated by spaces or written as JSON, objects are written as JSON. If interrupted, the command
    prints the --skip value to resume with. Requests that the cluster rejects are shown by:
    crawlstream rejected list

    Example: crawlstream feed '{"url": "https://example.com", "appid": "my-app", "crawlid": "1"}'
    """
    settings, began = load_settings(), time.monotonic()
    with _lines_of(source) as lines, _progress() as show:
        table = is_csv or source.lower().endswith(".csv")
        requests = read_table(lines) if table else read_requests(lines)
        fed = asyncio.run(_feed(settings, islice(requests, skip, None), skip=skip, show=show))
    topic, took_s = settings.topics.incoming, time.monotonic() - began
    if as_json:
        told = orjson.dumps({"fed": fed, "topic": topic, "seconds": round(took_s, 3)}).decode()
    else:
        rate = f" ({fed / took_s:,.0f} per second)" if fed > _BATCH else ""
        told = f"Fed {fed} request{'s' * (fed != 1)} into {topic}{rate}."
    say(told)


@contextmanager
def _progress() -> Iterator[Callable[[int], object]]:
    """Shows how many were fed and how fast, on a terminal; elsewhere nothing."""
    console, began = stderr_console(), time.monotonic()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("Feeding …") as status:

        def show(fed: int) -> None:
            rate = fed / (time.monotonic() - began)
            status.update(f"Fed {fed:,} requests, {rate:,.0f} per second …")

        yield show


@contextmanager
def _lines_of(source: str) -> Iterator[Iterable[bytes]]:
    """The lines behind the argument."""
    if source == "-":
        yield sys.stdin.buffer
    elif source.lstrip()[:1] in ("{", "["):
        yield [source.encode("utf-8", "surrogateescape")]
    elif not Path(source).is_file():
        raise CrawlstreamError(f"{source} is neither a file nor a JSON object")
    else:
        with Path(source).open("rb") as file:
            yield file


async def _feed(
    settings: Settings, requests: Iterator[Request], *, skip: int, show: Callable[[int], object]
) -> int:
    """Send in batches; whatever ends it says how much stays fed."""
    topics, fed = settings.topics, 0
    async with open_sink(settings) as sink:
        try:
            while batch := [as_record(topics, request) for request in islice(requests, _BATCH)]:
                await sink.send(batch)
                fed += len(batch)
                show(fed)
        except (InvalidRequest, KafkaUnavailable, asyncio.CancelledError) as error:
            why = str(error) or "interrupted"
            raise CrawlstreamError(f"{why}{_go_on(fed, skip)}") from error
    return fed


def _go_on(fed: int, skip: int) -> str:
    if not fed + skip:
        return ""
    return f"; {fed} requests were fed before that: resume with --skip {fed + skip}"


def read_requests(lines: Iterable[bytes]) -> Iterator[Request]:
    """One request a line; if the first line is only a beginning, all lines are one document."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    for number, line in numbered:
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if number > 1:
                raise _not_json(f"line {number} is not JSON: {error}") from error
            document = _whole(b"".join([line, *(rest for _, rest in numbered)]))
        yield from _objects(document, number)


def _whole(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _not_json(
            f"the input is neither a JSON document nor one JSON object per line: {error}"
        ) from error


def _not_json(problem: str) -> InvalidRequest:
    return InvalidRequest(Refusal.NOT_JSON, [problem])


def _objects(document: object, line: int) -> Iterator[Request]:
    """The requests of one document."""
    for request in document if isinstance(document, list) else [document]:
        if not isinstance(request, dict):
            problem = f"line {line} is not a JSON object"
            raise InvalidRequest(Refusal.NOT_AN_OBJECT, [problem])
        yield request
