"""``crawlstream chaos``: faults on a whole cluster, and an auditor who says what became of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from crawlstream_chaos.runner import Options, problem_of, run, show_names
from crawlstream_cli.common.console import PrintableConsole
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.local.home import checkout
from crawlstream_cli.local.partitions import MOST_LOCAL


def _console() -> PrintableConsole:
    # The table does not fit into the 80 columns of a pipe.
    return PrintableConsole(highlight=False, width=None if sys.stdout.isatty() else 160)


Faults = Annotated[
    str,
    typer.Option(
        help="Comma-separated names of faults or scenarios; `table` runs every scenario once."
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        min=1, help="Start no new round after this many seconds; the current one still finishes."
    ),
]
Partitions = Annotated[
    int,
    typer.Option(
        min=1, max=MOST_LOCAL, help="Partitions of the frontier, each on a Redis of its own."
    ),
]


def chaos(  # noqa: PLR0913  an option each
    *,
    faults: Faults = "combined",
    seconds: Seconds = 120,
    round_seconds: Annotated[
        float, typer.Option(min=5, help="Seconds of fault injection per round (one crawl).")
    ] = 30,
    seed: Annotated[int, typer.Option(help="Random seed; round n uses seed + n - 1.")] = 1,
    pages: Annotated[int, typer.Option(min=50, help="Number of pages of the test website.")] = 1000,
    partitions: Partitions = 1,
    report: Annotated[Path, typer.Option(help="File to write the report to.")] = Path(
        "chaos-report.json"
    ),
    is_long: Annotated[
        bool,
        typer.Option(
            "--long",
            help="Use full-length faults (e.g. Kafka frozen for 30 s) instead of short ones.",
        ),
    ] = False,
    is_list: Annotated[bool, typer.Option("--list", help="List all scenarios and faults.")] = False,
) -> None:
    """Inject faults into a crawling test cluster, then audit what it delivered.

    Starts its own cluster and a test website on 127.0.0.0/8. Each round feeds one crawl and kills,
    freezes, disconnects or empties servers and processes while its pages are queued. After the
    crawl has ended, the round checks the site's access log, the topics and the ledger: no page is
    lost, duplicates are few and recognisable, the ledger balances, the run ended once, no rate
    limit was exceeded, and no page was completed before Kafka acknowledged it. Exit code 0 only if
    all checks pass. Ctrl-C and SIGTERM stop everything.

    Example: crawlstream chaos --faults kill-crawler,kill-redis --seconds 60 --seed 7
    """
    if is_list:
        show_names(_console())
        return
    if problem := problem_of(faults, partitions):
        raise typer.BadParameter(problem, param_hint="--faults")
    options = Options(
        faults=faults,
        seconds=seconds,
        round_seconds=round_seconds,
        seed=seed,
        pages=pages,
        report=report,
        is_long=is_long,
        partitions=partitions,
    )
    raise typer.Exit(_run(options))


def _run(options: Options) -> int:
    """The status to exit with; 1 where a law was broken."""
    checkout("supervisord.conf")
    return 0 if until_signal(run(options, _console())) else 1
