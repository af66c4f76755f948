"""``archive list | verify``: WARC files of pipelines, read from their stores alone."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, CrawlstreamError
from pipeline_service.archives.archive_check import COUNTED, WARC, ArchiveReport, check_archive
from pipeline_service.archives.stored_segments import last_accounts, sizes_of
from pipeline_service.commands.printing import (
    EXIT_FAILED,
    complain,
    print_json,
    print_line,
    print_table,
)
from pipeline_service.process import load_pipeline, load_pipelines
from pipeline_service.records.account import OF_ARCHIVES, summed
from pipeline_service.sink_factory import open_store
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.files_spec import FilesSpec

_SHOWN = 20
"""Problems on the screen; --json has more."""


async def archive(settings: Settings, options: argparse.Namespace) -> int:
    """Print all archives, or check one; 1 if one cannot be read, or has a problem."""
    if options.verb == "list":
        return await asyncio.to_thread(_list, settings, as_json=options.json)
    if not options.name:
        raise ConfigError("archive verify: which? Name the pipeline: see `archive list`")
    return await asyncio.to_thread(_verify, settings, options.name, as_json=options.json)


def _list(settings: Settings, *, as_json: bool) -> int:
    rows: list[Mapping[str, Any]] = []
    status = 0
    for pipeline in load_pipelines(settings, ()):
        if _is_archive(pipeline):
            try:
                rows.append(_described(pipeline))
            except CrawlstreamError as error:
                complain(f"pipeline.{pipeline.name}: {error}")
                status = EXIT_FAILED
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_table(list(rows[0]), [[_cell(row[name]) for name in row] for row in rows])
    elif not status:
        print_line('No pipeline writes WARC files: one does so with format = "warc.gz".')
    return status


def _is_archive(pipeline: Pipeline) -> bool:
    return isinstance(pipeline.sink, FilesSpec) and pipeline.sink.format == WARC[1:]


def _described(pipeline: Pipeline) -> Mapping[str, Any]:
    """Return a row of the list. StoreUnavailable, BrokenChain."""
    store = open_store(pipeline)
    sizes = sizes_of(store, WARC)
    total = summed(last_accounts(store)).total
    return {
        "pipeline": pipeline.name,
        "edition": pipeline.edition,
        "files": len(sizes),
        "bytes": sum(sizes),
        "pages": total.delivered,
        **{name: total.marks[name] for name in OF_ARCHIVES},
        "path": store.url(""),
    }


def _verify(settings: Settings, name: str, *, as_json: bool) -> int:
    pipeline = load_pipeline(settings, name)
    if not _is_archive(pipeline):
        raise ConfigError(
            f'pipeline.{name} writes no WARC files: only format = "warc.gz" can be verified'
        )
    store, is_shown = open_store(pipeline), sys.stderr.isatty()

    def progress(counts: Counter[str]) -> None:
        if is_shown:
            sys.stderr.write(f"\r{counts['files']:,} files, {_megabytes(counts['bytes'])} MB ")
            sys.stderr.flush()

    report = check_archive(store, progress)
    if is_shown:
        sys.stderr.write("\r\x1b[K")
    if as_json:
        print_json(_told(report))
    else:
        _print(report, store.url(""))
    return EXIT_FAILED if report.problem_count else 0


def _told(report: ArchiveReport) -> Mapping[str, Any]:
    return {
        **{name: report.counts[name] for name in COUNTED},
        "problems": report.problem_count,
        "first_problems": [each._asdict() for each in report.problems],
    }


def _print(report: ArchiveReport, place: str) -> None:
    counts = report.counts
    print_line(place)
    print_line(
        f"{counts['pages']:,} pages, of which {counts['revisits']:,} revisits, in"
        f" {counts['files']:,} files of {counts['segments']:,} segments,"
        f" {_megabytes(counts['bytes'])} MB"
    )
    if counts["unfinished"]:
        print_line(
            f"{counts['unfinished']:,} segments are not finished: the pipeline will write them"
            " again when it runs"
        )
    if counts["without_index"]:
        print_line(
            f"{counts['without_index']:,} files have no index: an earlier version wrote them"
        )
    for where, what in report.problems[:_SHOWN]:
        print_line(f"  {where}: {what}")
    if report.problem_count > _SHOWN:
        print_line(f"  and {report.problem_count - _SHOWN:,} more: --json has the first 1,000")
    print_line(
        f"problems: {report.problem_count:,}" if report.problem_count else "No problem found."
    )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f}"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
