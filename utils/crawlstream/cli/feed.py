"""``crawlstream feed``: requests of all four kinds into the incoming topic."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.cli.ask import as_record, open_sink, topics_of
from crawlstream.errors import CrawlstreamError

_BATCH = 500
"""Requests between two acknowledgements."""

Request = Mapping[str, Any]


def feed(
    source: Annotated[
        str, typer.Argument(metavar="JSON|FILE|-", help="A request, a file of them, or stdin.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Say how many were fed as one line of JSON.")
    ] = False,
) -> None:
    """Feed requests: crawls, actions, stats, zookeeper.

    A file holds one JSON object a line, or one JSON document: an object, or an array of them.
    What the cluster refuses comes back on the rejected topic: crawlstream dump rejected

    Example: crawlstream feed '{"url": "https://example.com", "appid": "me", "crawlid": "1"}'
    """
    settings = load_settings()
    with _lines_of(source) as lines:
        fed = asyncio.run(_feed(settings, read_requests(lines)))
    topic = topics_of(settings).incoming
    text = orjson.dumps({"fed": fed, "topic": topic}).decode() if as_json else ""
    sys.stdout.write((text or f"Fed {fed} request{'s' * (fed != 1)} into {topic}.") + "\n")


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


async def _feed(settings: Settings, requests: Iterator[Request]) -> int:
    """Send in batches; a line that is not a request ends it, and what came before stays fed."""
    topics, fed = topics_of(settings), 0
    async with open_sink(settings) as sink:
        try:
            while batch := [as_record(topics, request) for request in islice(requests, _BATCH)]:
                await sink.send(batch)
                fed += len(batch)
        except _NotARequestError as error:
            before = f"; {fed} requests before it were fed" if fed else ""
            raise CrawlstreamError(f"{error}{before}") from error
    return fed


class _NotARequestError(CrawlstreamError):
    """What was given is not a request."""


def read_requests(lines: Iterable[bytes]) -> Iterator[Request]:
    """One request a line; if the first line is only a beginning, all lines are one document."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    for number, line in numbered:
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if number > 1:
                raise _NotARequestError(f"line {number} is not JSON: {error}") from error
            document = _whole(b"".join([line, *(rest for _, rest in numbered)]))
        yield from _objects(document, number)


def _whole(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _NotARequestError(
            f"this is neither JSON nor one JSON object a line: {error}"
        ) from error


def _objects(document: object, line: int) -> Iterator[Request]:
    """The requests of one document."""
    for request in document if isinstance(document, list) else [document]:
        if not isinstance(request, dict):
            raise _NotARequestError(f"line {line} holds something else than a JSON object")
        yield request
