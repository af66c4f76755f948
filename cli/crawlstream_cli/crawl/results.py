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
from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.wire.delivered import decode
from crawlstream_cli.common.console import print_line
from crawlstream_cli.common.follow import OnResult
from crawlstream_cli.common.words import counted
from crawlstream_cli.crawl.output import whole_file
from pipeline_service.formats.files import FORMATS, Crawl, format_of, load_format


def check_output(output: Path | None) -> None:
    """Raise ConfigError if the name does not determine a format, or its library is missing."""
    if output is None or str(output) == "-":
        return
    if which := format_of(output.name):
        load_format(which)
        return
    if _is_special(output):
        return
    endings = ", ".join(f".{each}" for each in FORMATS)
    raise ConfigError(f"--output {output}: expected a file name that ends in {endings}; or -")


@contextmanager
def results_to(output: Path | None, console: Console, crawl: Crawl) -> Iterator[OnResult]:
    """Where each result goes: a line for people, or the record itself for programs."""
    if output is None:
        yield lambda _, result: console.print(describe(result), soft_wrap=True)
    elif str(output) == "-":
        yield _say_record if sys.stdout.isatty() else _print_record
    else:
        with whole_file(output, format_of(output.name) or "jsonl", crawl) as writer:
            yield lambda record, _: writer.write(record, decode(record))


def open_results(path: Path) -> BinaryIO:
    """A new file for results; CrawlstreamError says why it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")
    except OSError as error:
        raise CrawlstreamError(f"cannot write results to {path}: {error.strerror}") from error


def _is_special(path: Path) -> bool:
    """Return whether it is a device or a pipe, whose name does not determine a format."""
    return path.exists() and not path.is_file()


def _print_record(record: bytes, _: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(record + b"\n")
    sys.stdout.buffer.flush()


def _say_record(record: bytes, _: Mapping[str, Any]) -> None:
    print_line(record.decode("utf-8", "replace"))


def describe(result: Mapping[str, Any]) -> Text:
    """Return one line about one result: status, URL, size."""
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
