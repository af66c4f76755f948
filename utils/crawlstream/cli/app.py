"""The command line: one table of verbs, each loaded when it is used.

What a person gets when something is wrong is one sentence on standard error: exit 2 for a wrong
setting or a wrong call, 1 for all else. CRAWLSTREAM_DEBUG=1 adds the trace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from crawlstream import __version__
from crawlstream.errors import ConfigError, CrawlstreamError


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is (``module:name``), its line in the help, and whom it talks to."""

    target: str
    summary: str
    joins_cluster: bool = True
    """Whether it works with the cluster that runs in the home, rather than on it."""
    passes_options: bool = False
    """Whether options that it does not know are somebody else's."""


VERBS = {
    "demo": Verb("demo:demo", "Crawl the bundled site, from Kafka to Kafka.", joins_cluster=False),
    "up": Verb("up:up", "Start a cluster on this machine.", joins_cluster=False),
    "down": Verb("down:down", "Stop the cluster on this machine."),
    "status": Verb("status:status", "Show the cluster's processes and counters."),
    "logs": Verb("logs:logs", "Show the logs of the cluster's processes."),
    "crawl": Verb(
        "crawl.command:crawl", "Crawl from URLs, write the results and wait for the end."
    ),
    "feed": Verb("feed:feed", "Send requests to Kafka."),
    "dump": Verb("dump:dump", "Show the records of a topic."),
    "rejected": Verb("rejected:rejected", "Show rejected records and replay them."),
    "recover": Verb(
        "recover:recover",
        "Estimate the cost of losing Redis; repair a truncated Kafka partition.",
    ),
    "info": Verb("info:info", "Show all crawls, or the progress of one crawl."),
    "crawls": Verb("crawls:crawls", "List current and recent crawls."),
    "runs": Verb("runs:runs", "List the runs of a crawl."),
    "compare": Verb("runs:compare", "Compare two runs: new, gone and changed pages."),
    "stats": Verb("stats:stats", "Show the cluster's statistics."),
    "cost": Verb("cost:cost", "Estimate the cost of a million pages."),
    "stop": Verb("steer:stop", "Stop a crawl and drop its queued pages."),
    "pause": Verb("steer:pause", "Pause a crawl."),
    "resume": Verb("steer:resume", "Resume a paused crawl."),
    "reprioritize": Verb("steer:reprioritize", "Change a crawl's priority."),
    "frontier": Verb("inspect:frontier", "Look up a page, a domain or a crawl in the frontier."),
    "schedule": Verb("schedule:schedule", "Show and change what is fed again and again."),
    "throttle": Verb("throttle:throttle", "Show and change the throttle rules."),
    "migrate": Verb(
        "migrate.command:migrate",
        "Check what of a Scrapy Cluster project has to be changed.",
        joins_cluster=False,
    ),
    "test": Verb(
        "dev.checks:run_tests",
        "Run the tests; they start their own servers.",
        joins_cluster=False,
        passes_options=True,
    ),
    "check": Verb("dev.checks:run_checks", "Run the static checks.", joins_cluster=False),
    "chaos": Verb(
        "dev.chaos:chaos",
        "Inject faults into a test cluster and audit the result.",
        joins_cluster=False,
    ),
    "bench": Verb("dev.bench:bench", "Run a benchmark.", joins_cluster=False),
}


class _LazyVerb(TyperCommand):
    """A verb that is imported when it is called, not when it is listed."""

    def __init__(self, name: str, verb: Verb) -> None:
        super().__init__(name, help=verb.summary)
        self._verb = verb

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Hand over to the real command."""
        return self._load().make_context(info_name, args, parent, **extra)

    def _load(self) -> Any:
        from crawlstream.boot.log import configure_for_command

        configure_for_command()
        if self._verb.joins_cluster:
            from crawlstream.local.cluster import adopt_running_cluster

            adopt_running_cluster()
        module, _, name = self._verb.target.partition(":")
        found = getattr(import_module(f"crawlstream.cli.{module}"), name)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False)
            settings = {"ignore_unknown_options": self._verb.passes_options}
            found.command(self.name, context_settings=settings)(function)
        return typer.main.get_command(found)


class _Verbs(TyperGroup):
    """The table of verbs as a click group, which suggests those that a mistyped one is like."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: _LazyVerb(name, verb) for name, verb in VERBS.items()}


app = typer.Typer(
    cls=_Verbs,
    name="crawlstream",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
]


@app.callback()
def _root(version: _Version = False) -> None:
    """A Kafka-fed crawl cluster that loses no page and never exceeds a site's rate limit."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the status to exit with."""
    try:
        _load_env_file()
        app(arguments, prog_name="crawlstream")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except CrawlstreamError as error:
        return _refuse(str(error), 2 if isinstance(error, ConfigError) else 1)
    except Exception as error:  # noqa: BLE001  the last resort of a whole process
        return _refuse(f"unexpected {type(error).__name__}: {error}", 1)
    return 0


def _load_env_file() -> None:
    """Take ``.env`` into the environment, so that child processes are told the same.

    A person is told which file it was: in somebody else's folder it may lead to other servers.
    """
    file = Path(".env")
    if not file.is_file():
        return
    if file.stat().st_uid not in (os.getuid(), 0):
        raise ConfigError(
            f"{file.resolve()} is owned by another user and was not read: remove it or run the"
            " command in another directory"
        )
    from dotenv import load_dotenv

    load_dotenv(file, override=False)
    if sys.stderr.isatty():
        sys.stderr.write(f"crawlstream: also reading settings from {file.resolve()}\n")


def _refuse(sentence: str, status: int) -> int:
    if os.environ.get("CRAWLSTREAM_DEBUG") == "1":
        raise  # noqa: PLE0704  the error that is being handled
    from crawlstream.boot.printable import printable

    sys.stderr.write(f"crawlstream: {printable(' '.join(sentence.split()))}\n")
    return status
