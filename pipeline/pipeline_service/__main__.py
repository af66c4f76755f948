"""The command ``python -m pipeline_service``: runs pipelines, and looks at them.

People call it as ``crawlstream pipeline``, which has the help of each command.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from crawlstream.boot.options import EXIT_CONFIG, common_options, settings_of
from crawlstream.errors import ConfigError, CrawlstreamError
from pipeline_service import process
from pipeline_service.commands import (
    archive,
    check,
    inspect,
    pages,
    preview,
    query,
    schema,
    second_chances,
)
from pipeline_service.commands.printing import EXIT_FAILED, complain

EXIT_INTERRUPTED, EXIT_UNREAD = 130, 141
"""As a shell reports SIGINT and SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says how it went."""
    options = _parser().parse_args(arguments)
    try:
        settings = settings_of(options)
        if options.command == "run":
            asyncio.run(process.run(settings, options.names, until_end=options.until_end))
            if options.until_end:
                asyncio.run(inspect.summarize(settings, options.names))
            return 0
        return int(asyncio.run(options.does(settings, options)))
    except ConfigError as error:
        complain(str(error))
        return EXIT_CONFIG
    except CrawlstreamError as error:
        complain(str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has ended. Nothing more is written, also not by Python's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pipeline", description="Deliver results to files, each page once."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = [common_options()]
    running = commands.add_parser("run", parents=common, help="run until stopped")
    running.add_argument("names", nargs="*", metavar="NAME", help="default: all of the file")
    running.add_argument(
        "--until-end", action="store_true", help="end when all that is on the topics now is stored"
    )
    for name, does, about in (
        ("list", inspect.list_pipelines, "how far each pipeline is"),
        ("report", inspect.report, "the account of a pipeline, by run"),
        ("check", check.check, "whether a pipeline can run"),
        ("preview", preview.preview, "the latest records as a pipeline would write them"),
        ("schema", schema.schema, "the records as Kafka Connect sees them"),
        ("pages", pages.pages, "what is known of pages, and what is due"),
        ("query", query.query, "SQL over the files"),
        ("undelivered", second_chances.undelivered, "what could not be delivered"),
        ("archive", archive.archive, "WARC files, and whether they are whole"),
    ):
        command = commands.add_parser(name, parents=common, help=about)
        command.set_defaults(does=does)
        _ARGUMENTS[name](command)
    return parser


def _for_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def _for_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--crawlid")
    parser.add_argument("--json", action="store_true")


def _for_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME")


def _for_preview(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("-n", dest="count", type=int, default=5)


def _for_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flat", action="store_true")


def _for_pages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", choices=("status", "due", "changed", "show", "now"))
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("--appid")
    parser.add_argument("--since", default="24h")
    parser.add_argument("-n", dest="count", type=int, default=20)
    parser.add_argument("--json", action="store_true")


def _for_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sql", metavar="SQL")
    parser.add_argument("-n", dest="count", type=int, default=100)
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--json", action="store_true")


def _for_undelivered(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", choices=("list", "show", "replay"))
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--reason")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--json", action="store_true")


def _for_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", choices=("list", "verify"))
    parser.add_argument("name", nargs="?", metavar="NAME", default="")
    parser.add_argument("--json", action="store_true")


_ARGUMENTS = {
    "archive": _for_archive,
    "list": _for_list,
    "report": _for_report,
    "check": _for_check,
    "pages": _for_pages,
    "preview": _for_preview,
    "query": _for_query,
    "schema": _for_schema,
    "undelivered": _for_undelivered,
}

if __name__ == "__main__":
    sys.exit(main())
