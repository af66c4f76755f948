"""``crawlstream migrate check``: what of a Scrapy Cluster project works here, line by line."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.text import Text

from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.words import counted
from crawlstream_cli.migrate.finding import UNTOLD, Finding, Remedy
from crawlstream_cli.migrate.project import ProjectReport, check_project

migrate = typer.Typer(
    help="Check what of a Scrapy Cluster project has to be changed.",
    no_args_is_help=True,
    add_completion=False,
)

_COLOURS = {
    Remedy.WORKS: "green",
    Remedy.UNUSED: "dim",
    Remedy.SET: "yellow",
    Remedy.RENAME: "yellow",
    Remedy.CHANGE: "red",
}

_IN_WORDS = {
    Remedy.WORKS: "to keep (works)",
    Remedy.UNUSED: "not needed any more (unused)",
    Remedy.SET: "to move to the environment (set)",
    Remedy.RENAME: "to rename",
    Remedy.CHANGE: "to change",
}


@migrate.callback()
def _of_projects() -> None:
    """Keep `check` a command of its own."""


@migrate.command("check")
def check(
    project: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the project.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    to_do: Annotated[bool, typer.Option("--todo", help="Show only lines to change.")] = False,
) -> None:
    """Check a Scrapy Cluster project: settings, spiders, plugins, and what starts its processes.

    Reads the files and runs none of them. Each line is `works`, `unused` (not needed any more),
    `set` (a setting that moves to the environment), `rename` or `change`. Exit code 1 if there are
    lines to set, rename or change, 2 if DIR contains nothing of Scrapy Cluster.

    Example: crawlstream migrate check ../scrapy-cluster
    """
    report = check_project(project)
    if as_json:
        print_line(orjson.dumps(_as_json(project, report), option=orjson.OPT_INDENT_2).decode())
    else:
        _show(report, only_to_do=to_do)
    raise typer.Exit(1 if report.to_do else 0)


def _as_json(project: Path, report: ProjectReport) -> dict[str, object]:
    return {
        "project": str(project),
        "files": report.files,
        "to_do": report.to_do,
        "settings": {
            name: None if value == UNTOLD else value for name, value in report.settings.items()
        },
        "findings": [
            {
                "file": each.file,
                "line": each.line,
                "name": each.name,
                "verdict": each.verdict,
                "advice": each.advice,
            }
            for each in report.findings
        ],
    }


def _show(report: ProjectReport, *, only_to_do: bool) -> None:
    console = stdout_console(markup=False, highlight=False)
    idle = {Remedy.WORKS, Remedy.UNUSED} if only_to_do else set()
    shown = [finding for finding in report.findings if finding.verdict not in idle]
    for file, findings in groupby(shown, key=lambda finding: finding.file):
        console.print(Text(file, "bold"))
        for finding in findings:
            console.print(_line(finding), soft_wrap=True)
    if report.settings:
        console.print(Text("\nThe settings that differ from the defaults, as .env:", "bold"))
        for name, value in report.settings.items():
            # Whatever is pasted there is believed.
            mark = "# " if value == UNTOLD else ""
            console.print(f"{mark}{name}={value}", soft_wrap=True)
    console.print(f"\n{_summary(report)}", soft_wrap=True)


def _line(finding: Finding) -> Text:
    place = f"{finding.line:>5}" if finding.line else "    -"
    colour = _COLOURS[finding.verdict]
    return Text.assemble(
        f"{place}  ", (f"{finding.verdict:7}", colour), f" {finding.name}: {finding.advice}"
    )


def _summary(report: ProjectReport) -> str:
    counts = Counter(finding.verdict for finding in report.findings)
    told = ", ".join(
        f"{counts[verdict]} {words}" for verdict, words in _IN_WORDS.items() if counts[verdict]
    )
    files = counted(report.files, "file")
    if not report.to_do:
        return f"{files}: {told}. Nothing to change."
    return f"{files}: {told}. How each is done: docs/migrating.md"
