"""``crawlstream feed``: requests of all four kinds into the incoming topic, one or millions.

The input is read twice: once to check it, with the schemas by which kafka-monitor reads, and once
to send it. ``--partial`` and ``--no-check`` read it once, so they also take what never ends.
"""

from __future__ import annotations

import asyncio
import io
import shlex
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import orjson
import typer

from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError, InvalidRequest, KafkaUnavailable
from crawlstream.model.request import Refusal
from crawlstream_cli.common.cluster_requests import APPID, as_record, open_sink
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_cli.common.seed_check import Checked, FoundSeed, read_found
from crawlstream_cli.common.words import counted

_BATCH = 1000
"""Requests between two acknowledgements; as many may be fed twice by who goes on after a fault."""

Request = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """Input of a feed, and the fields to add to it."""

    file: IO[bytes]
    is_table: bool
    skip: int
    appid: str
    crawlid: str
    named: set[str]
    """Has the crawlid as soon as a request has been given it."""

    def found(self) -> Iterator[tuple[int, FoundSeed]]:
        """Everything, with its number from 1; what is skipped is left out."""
        numbered = enumerate(read_found(self.file, is_table=self.is_table), 1)
        for number, found in islice(numbered, self.skip, None):
            yield number, FoundSeed(found.place, self._filled(found.request), found.problem)

    def _filled(self, request: Request | None) -> Request | None:
        if request is None:
            return None
        added = {"appid": self.appid} if "appid" not in request else {}
        if "url" in request and "crawlid" not in request:
            added["crawlid"] = self.crawlid
            self.named.add(self.crawlid)
        return {**request, **added}


_Source = Annotated[
    str,
    typer.Argument(metavar="JSON|FILE|-", help="A request, a file of requests, or - for stdin."),
]
_IsCsv = Annotated[
    bool, typer.Option("--csv", help="Read the input as CSV; implied for files named *.csv.")
]
_AppId = Annotated[str, typer.Option(help="Application id (appid) of requests that name none.")]
_CrawlId = Annotated[
    str | None, typer.Option(help="Crawl of crawl requests that name none. [default: a random id]")
]
_Partial = Annotated[
    bool, typer.Option("--partial", help="Send the valid requests even if others are invalid.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Check all, send nothing.")]
_Checks = Annotated[
    bool, typer.Option("--check/--no-check", help="Validate the requests before they are sent.")
]
_Skip = Annotated[
    int, typer.Option(min=0, help="Skip this many requests at the start (already fed).")
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as one line of JSON.")]


def feed(  # noqa: PLR0913  an option each
    source: _Source,
    *,
    is_csv: _IsCsv = False,
    appid: _AppId = APPID,
    crawlid: _CrawlId = None,
    partial: _Partial = False,
    dry_run: _DryRun = False,
    checks: _Checks = True,
    skip: _Skip = 0,
    as_json: _AsJson = False,
) -> None:
    """Send requests to the cluster: URLs to crawl, or actions on crawls.

    A file contains one JSON object per line, or one JSON document (an object or an array of
    objects), or a CSV table of crawl requests. The first row of a table names the fields; lists are
    separated by spaces or written as JSON, objects are written as JSON.

    All requests are validated first, and if one is invalid, none is sent. Only what this machine
    cannot know, such as a full crawl, is still rejected by the cluster; see: crawlstream rejected
    list. If interrupted, the command prints the options to resume with.

    Example: crawlstream feed '{"url": "https://example.com", "appid": "my-app", "crawlid": "1"}'
    """
    settings, began = load_settings(), time.monotonic()
    checked = Checked(settings.request_limits)
    twice = dry_run or (checks and not partial)
    with _opened(source, twice=twice) as file, _progress() as show:
        given = _Input(
            file=file,
            is_table=is_csv or source.lower().endswith(".csv"),
            skip=skip,
            appid=appid,
            crawlid=crawlid or uuid.uuid4().hex[:12],
            named=set(),
        )
        if twice:
            _check_all(given, checked)
            file.seek(0)
        fed = 0
        if not dry_run:
            wanted = _those_right(given, checked) if partial and checks else given.found()
            fed = asyncio.run(_feed(settings, given, wanted, show=show))
        if not twice:
            _warn(checked)
    _tell(_Fed(fed, settings.topics.incoming, checked, time.monotonic() - began), as_json=as_json)


def _check_all(given: _Input, checked: Checked) -> None:
    """CrawlstreamError, and each problem on standard error, if one would be refused."""
    for _ in _those_right(given, checked):
        pass
    _warn(checked)
    if checked.refused:
        total = checked.good + checked.refused
        raise CrawlstreamError(
            f"{checked.refused} of {counted(total, 'request')} would be refused, so none was sent"
            " (--partial sends the others)"
        )


def _those_right(given: _Input, checked: Checked) -> Iterator[tuple[int, FoundSeed]]:
    return (each for each in given.found() if checked.takes(each[1]))


def _warn(checked: Checked) -> None:
    lines = [*checked.problems, *(f"warning: {text}" for text in checked.warnings)]
    if checked.refused > len(checked.problems):
        lines.append(f"and {checked.refused - len(checked.problems):,} more")
    for line in lines:
        sys.stderr.write(f"{printable(line)}\n")


@dataclass(frozen=True, slots=True)
class _Fed:
    """Result of a feed."""

    count: int
    topic: str
    checked: Checked
    took_s: float

    def as_json(self) -> Mapping[str, object]:
        """The summary."""
        return {
            "fed": self.count,
            "topic": self.topic,
            "seconds": round(self.took_s, 3),
            "valid": self.checked.good,
            "refused": self.checked.refused,
            "crawlid": next(iter(self.checked.crawls)) if len(self.checked.crawls) == 1 else None,
        }

    def sentences(self) -> Iterator[str]:
        """Yield the result for people, and the next step."""
        if not self.count:
            yield f"{counted(self.checked.good, 'request')} would be taken; nothing was sent."
            return
        rate = f" ({self.count / self.took_s:,.0f} per second)" if self.count > _BATCH else ""
        left = f"; {self.checked.refused:,} invalid ones were left out" * bool(self.checked.refused)
        yield f"Fed {counted(self.count, 'request')} into {self.topic}{rate}{left}."
        crawls = self.checked.crawls
        if len(crawls) == 1:
            yield f"Progress: {COMMAND} info {shlex.quote(next(iter(crawls)))}"
        elif crawls:
            yield f"Progress: {COMMAND} crawls"


def _tell(fed: _Fed, *, as_json: bool) -> None:
    lines = [orjson.dumps(fed.as_json()).decode()] if as_json else fed.sentences()
    for line in lines:
        print_line(line)


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
def _opened(source: str, *, twice: bool) -> Iterator[IO[bytes]]:
    """Open the source that the argument names; ``twice``: it can be read again."""
    if source == "-" and not twice:
        yield sys.stdin.buffer
    elif source == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            yield copy
    elif source.lstrip()[:1] in ("{", "["):
        yield io.BytesIO(source.encode("utf-8", "surrogateescape"))
    elif not Path(source).is_file():
        raise CrawlstreamError(f"{source} is neither a file nor a JSON object")
    else:
        with Path(source).open("rb") as file:
            yield file


async def _feed(
    settings: Settings,
    given: _Input,
    found: Iterator[tuple[int, FoundSeed]],
    *,
    show: Callable[[int], object],
) -> int:
    """Send in batches; whatever ends it says how much stays fed."""
    fed, last = 0, given.skip
    async with open_sink(settings) as sink:
        try:
            while batch := list(islice(found, _BATCH)):
                await sink.send(
                    [as_record(settings.topics, _request_of(each)) for _, each in batch]
                )
                fed += len(batch)
                last = batch[-1][0]
                show(fed)
        except (InvalidRequest, KafkaUnavailable, asyncio.CancelledError) as error:
            why = str(error) or "interrupted"
            raise CrawlstreamError(f"{why}{_go_on(given, fed, last)}") from error
    return fed


def _request_of(found: FoundSeed) -> Request:
    if found.request is None:
        raise InvalidRequest(Refusal.NOT_JSON, [f"{found.place}: {found.problem}"])
    return found.request


def _go_on(given: _Input, fed: int, last: int) -> str:
    if not last:
        return ""
    crawl = f" --crawlid {shlex.quote(given.crawlid)}" if given.named else ""
    return f"; {fed} requests were fed before that: resume with{crawl} --skip {last}"
