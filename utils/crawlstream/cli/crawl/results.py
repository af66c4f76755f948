"""Where the results of a crawl go: a line each for people, the records themselves for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.text import Text

from crawlstream.boot.printable import printable
from crawlstream.cli.common.console import say
from crawlstream.cli.common.follow import OnResult
from crawlstream.cli.common.words import counted
from crawlstream.errors import CrawlstreamError


@contextmanager
def results_to(output: Path | None, console: Console) -> Iterator[OnResult]:
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
    links = counted(len(result["links"]), "link") if result["links"] else ""
    return Text.assemble(
        (f"{status} ", colour),
        (f"{size}  ", "dim"),
        printable(result["url"]),
        (f"  {links}", "dim"),
    )
