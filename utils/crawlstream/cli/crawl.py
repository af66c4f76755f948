"""``crawlstream crawl``: feed, follow, write results, end with the crawl."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import orjson
import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.cli.absent import absence
from crawlstream.cli.ask import APPID, ask
from crawlstream.cli.console import say, stderr_console
from crawlstream.cli.follow import Follower, OnResult, Progress
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def crawl(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Seed URLs.")],
    *,
    depth: Annotated[
        int, typer.Option("--depth", "-d", min=0, help="Maximum link depth below a seed.")
    ] = 0,
    max_pages: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of pages of the crawl.")
    ] = None,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Spider to use.")] = "link",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the results, one JSON object per line; - for stdout."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one line of JSON.")
    ] = False,
) -> None:
    """Crawl from one or more URLs and wait for the end.

    Lists pages as they arrive, or writes the records of the result topic to a file, each once. Exit
    code 0: the crawl finished; 1: it did not, or a seed was rejected. Ctrl-C also stops the crawl
    in the cluster.

    Example: crawlstream crawl https://example.com/ --depth 2 -o pages.jsonl
    """
    settings = load_settings()
    name = CrawlKey(spider, APPID, uuid.uuid4().hex[:12])
    requests = [
        {**seed(name, url, number), "maxdepth": depth, **_if_set(max_pages=max_pages)}
        for number, url in enumerate(urls)
    ]
    try:
        progress = asyncio.run(_crawl(settings, name, requests, output))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _report(name, progress, as_json=as_json)
    raise typer.Exit(0 if progress.finished else 1)


def seed(crawl: CrawlKey, url: str, number: int) -> dict[str, Any]:
    """A crawl request for one URL, with a uuid of its own."""
    return {
        "url": url,
        "appid": crawl.appid,
        "crawlid": crawl.crawlid,
        "spiderid": crawl.spiderid,
        "uuid": f"{crawl.crawlid}-{number}",
    }


def _if_set(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


async def _crawl(
    settings: Settings, name: CrawlKey, requests: list[dict[str, Any]], output: Path | None
) -> Progress:
    console = stderr_console()
    if missing := await absence(settings, name.spiderid):
        console.print(missing, style="yellow", markup=False, highlight=False, soft_wrap=True)
    with _results_to(output, console) as on_result:
        follower = Follower(settings, name, requests, on_result=on_result)
        try:
            with live(console, follower.progress):
                return await follower.run()
        except asyncio.CancelledError:
            await _stop(settings, name, console)
            raise


@contextmanager
def _results_to(output: Path | None, console: Console) -> Iterator[OnResult]:
    """Where each result goes: a line for people, or the record itself for programs."""
    if output is None:
        yield lambda _, result: console.print(describe(result), soft_wrap=True)
    elif str(output) == "-":
        yield _say_record if sys.stdout.isatty() else _writer(sys.stdout.buffer)
    else:
        with open_results(output) as file:
            yield _writer(file)


def open_results(path: Path) -> BinaryIO:
    """A new file for results; CrawlstreamError says why it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")
    except OSError as error:
        raise CrawlstreamError(f"cannot write results to {path}: {error.strerror}") from error


def _writer(file: BinaryIO) -> OnResult:
    def write(record: bytes, _: Mapping[str, Any]) -> None:
        file.write(record + b"\n")
        file.flush()

    return write


def _say_record(record: bytes, _: Mapping[str, Any]) -> None:
    say(record.decode("utf-8", "replace"))


def describe(result: Mapping[str, Any]) -> Text:
    """One line about one result: status, URL, what it held."""
    status = int(result["status_code"])
    colour = "green" if status < 300 else "yellow" if status < 500 else "red"
    size = f"{int(result['body_size']):,} B".rjust(10)
    links = f"{len(result['links'])} links" if result["links"] else ""
    return Text.assemble(
        (f"{status} ", colour),
        (f"{size}  ", "dim"),
        printable(result["url"]),
        (f"  {links}", "dim"),
    )


@contextmanager
def live(console: Console, progress: Progress) -> Iterator[None]:
    """A line that tells how far a crawl is, on a terminal, as long as the context lasts."""
    bar = Bar(
        SpinnerColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=None, state="")
        ticker = asyncio.create_task(_tick(bar, task, progress))
        try:
            yield
        finally:
            ticker.cancel()


async def _tick(bar: Bar, task: TaskID, progress: Progress) -> None:
    while True:
        bar.update(task, state=state_of(progress))
        await asyncio.sleep(0.1)


def state_of(progress: Progress) -> str:
    """How far a crawl is, in one line."""
    if not progress.results and not progress.accepted:
        return "waiting for a kafka-monitor to process the request"
    failed = sum(progress.failed.values())
    parts = [f"{progress.results} pages"]
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts) + f"  {printable(progress.last_url[:70])}"


async def _stop(settings: Settings, name: CrawlKey, console: Console) -> None:
    """Stop the crawl that nobody waits for any more."""
    request = {
        "action": "stop",
        "appid": name.appid,
        "crawlid": name.crawlid,
        "spiderid": name.spiderid,
    }
    try:
        reply = await ask(settings, request)
    except CrawlstreamError as error:
        console.print(f"The crawl may still be running: {error}", markup=False)
    else:
        console.print(f"Stopped; {reply.get('total_purged', 0)} queued pages were dropped.")


def _report(name: CrawlKey, progress: Progress, *, as_json: bool) -> None:
    ending = str(progress.ending["event"]) if progress.ending else "crawl_refused"
    if as_json:
        summary = {
            "crawlid": name.crawlid,
            "ending": ending,
            "pages": progress.results,
            "failed": dict(progress.failed),
            "silent": progress.silent,
            "refused": progress.refused,
        }
        say(orjson.dumps(summary).decode())
        return
    console = stderr_console()
    for why in progress.refused.values():
        console.print(f"Rejected: {why}", style="red", markup=False)
    for reason, count in sorted(progress.failed.items()):
        said = f": {detail}" if (detail := progress.details.get(reason)) else ""
        sentence = f"Failed ({reason}): {count}{said}"
        console.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if progress.silent:
        sentence = (
            f"Done without a result record: {progress.silent}. The spider yielded no result for"
            " them."
        )
        console.print(sentence, style="yellow")
    words = ending.removeprefix("crawl_")
    console.print(f"Crawl {name.crawlid} {words}: {progress.results} pages.", highlight=False)
