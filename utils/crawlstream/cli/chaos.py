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
        typer.Option(help="Faults or scenarios by name, with commas; table: every scenario once."),
    ] = "combined",
    seconds: Annotated[
        float, typer.Option(min=1, help="Begin no round after this; each is played to its end.")
    ] = 120,
    round_seconds: Annotated[
        float, typer.Option(min=5, help="How long faults strike in a round, one crawl.")
    ] = 30,
    seed: Annotated[int, typer.Option(help="All chance comes from it; each round adds one.")] = 1,
    pages: Annotated[int, typer.Option(min=50, help="How large the web is.")] = 1000,
    report: Annotated[Path, typer.Option(help="Where to write what happened.")] = Path(
        "chaos-report.json"
    ),
    is_long: Annotated[
        bool, typer.Option("--long", help="Let faults last as long as they must be outlived.")
    ] = False,
    is_list: Annotated[
        bool, typer.Option("--list", help="Tell which scenarios and faults there are.")
    ] = False,
) -> None:
    """Kill, freeze, cut and empty what a cluster is made of, while it crawls, and audit it.

    Starts a cluster of its own and a website on 127.0.0.0/8 that knows what a crawl of it must
    bring. In each round a crawl is fed, faults strike while its pages wait, and when it has ended
    the site's access log, the topics and the ledger are held against the laws: nothing is lost,
    repeats are few and recognisable, the books balance, one ending, no window overrun, complete
    only after Kafka. Exit code 0 only if all are kept. Ctrl-C stops everything.

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
