"""``crawlstream chaos``: faults on a whole cluster, and an auditor who says what became of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from crawlstream.local.home import environment_of_tests


def chaos(
    *,
    faults: Annotated[
        str,
        typer.Option(
            help="Comma-separated names of faults or scenarios; `table` runs every scenario once."
        ),
    ] = "combined",
    seconds: Annotated[
        float,
        typer.Option(
            min=1,
            help="Start no new round after this many seconds; the current one still finishes.",
        ),
    ] = 120,
    round_seconds: Annotated[
        float, typer.Option(min=5, help="Seconds of fault injection per round (one crawl).")
    ] = 30,
    seed: Annotated[int, typer.Option(help="Random seed; round n uses seed + n - 1.")] = 1,
    pages: Annotated[int, typer.Option(min=50, help="Number of pages of the test website.")] = 1000,
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
    all checks pass. Ctrl-C stops everything.

    Example: crawlstream chaos --faults kill-crawler,kill-redis --seconds 60 --seed 7
    """
    flags = [flag for flag, is_on in {"--long": is_long, "--list": is_list}.items() if is_on]
    options = {
        "faults": faults, "seconds": seconds, "round-seconds": round_seconds, "seed": seed,
        "pages": pages, "report": report,
    }  # fmt: skip
    chosen = [f"--{name}={value}" for name, value in options.items()]
    # In place of this process, so that whatever ends the command ends the cluster.
    argv = [sys.executable, "-m", "chaos", *chosen, *flags]
    os.execve(sys.executable, argv, environment_of_tests())  # noqa: S606  no shell
