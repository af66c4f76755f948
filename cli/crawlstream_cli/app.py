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
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from crawlstream import __version__
from crawlstream.errors import ConfigError, CrawlstreamError, KafkaRefused
from crawlstream.tasks import leaves_of


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is (``module:name``), its line in the help, and whom it talks to."""

    target: str
    summary: str
    panel: str
    """The heading under which the help lists it."""
    joins_cluster: bool = True
    """True if it uses the cluster that runs in the home directory; false if it manages it."""
    passes_options: bool = False
    """True if unknown options are passed on to another program."""

    def is_installed(self) -> bool:
        """Return whether its package is here; chaos comes with a checkout only."""
        return find_spec(self.target.partition(".")[0]) is not None


_START, _CRAWL, _LOOK = "Start and stop", "Crawl", "See what happens"
_KEEP, _WORK = "Rules and maintenance", "Work on crawlstream"

VERBS = {
    "demo": Verb(
        "crawlstream_cli.machine.demo:demo",
        "Crawl a bundled site with a cluster of its own, and check the result.",
        _START,
        joins_cluster=False,
    ),
    "up": Verb(
        "crawlstream_cli.machine.up:up",
        "Start a cluster on this machine.",
        _START,
        joins_cluster=False,
    ),
    "down": Verb("crawlstream_cli.machine.down:down", "Stop the cluster on this machine.", _START),
    "status": Verb(
        "crawlstream_cli.machine.status:status",
        "Show the cluster's processes and counters.",
        _START,
    ),
    "logs": Verb(
        "crawlstream_cli.machine.logs:logs", "Show the logs of the cluster's processes.", _START
    ),
    "crawl": Verb(
        "crawlstream_cli.crawl.command:crawl",
        "Crawl from URLs, write the results and wait for the end.",
        _CRAWL,
    ),
    "feed": Verb("crawlstream_cli.feed:feed", "Send requests, from a file or one by one.", _CRAWL),
    "stop": Verb("crawlstream_cli.steer:stop", "Stop a crawl and drop its queued pages.", _CRAWL),
    "pause": Verb("crawlstream_cli.steer:pause", "Pause a crawl.", _CRAWL),
    "resume": Verb("crawlstream_cli.steer:resume", "Resume a paused crawl.", _CRAWL),
    "reprioritize": Verb(
        "crawlstream_cli.steer:reprioritize", "Change a crawl's priority.", _CRAWL
    ),
    "crawls": Verb("crawlstream_cli.crawls:crawls", "List current and recent crawls.", _LOOK),
    "info": Verb(
        "crawlstream_cli.info:info", "Show the progress of one crawl, or all crawls.", _LOOK
    ),
    "frontier": Verb(
        "crawlstream_cli.inspect:frontier",
        "Find out where a page is, or why a domain waits.",
        _LOOK,
    ),
    "rejected": Verb(
        "crawlstream_cli.rejected:rejected",
        "Show requests that were refused, and send them again.",
        _LOOK,
    ),
    "dump": Verb("crawlstream_cli.dump:dump", "Show the records of a Kafka topic.", _LOOK),
    "runs": Verb(
        "crawlstream_cli.runs:runs", "List the runs of a crawl that was fed several times.", _LOOK
    ),
    "compare": Verb(
        "crawlstream_cli.runs:compare", "Compare two runs: new, gone and changed pages.", _LOOK
    ),
    "pipeline": Verb(
        "crawlstream_cli.pipeline:pipeline",
        "Deliver results to files: run pipelines, show them.",
        _LOOK,
    ),
    "pages": Verb(
        "crawlstream_cli.pages:pages",
        "Show the pages of a memory: what is known, and what is due.",
        _LOOK,
    ),
    "stats": Verb("crawlstream_cli.stats:stats", "Count requests and responses over time.", _LOOK),
    "schedule": Verb(
        "crawlstream_cli.schedule:schedule",
        "Crawl again at set times: show and change schedules.",
        _KEEP,
    ),
    "throttle": Verb(
        "crawlstream_cli.throttle:throttle", "Show and change the rate limits of sites.", _KEEP
    ),
    "proxies": Verb(
        "crawlstream_cli.proxies.command:proxies", "Show, change and check pools of proxies.", _KEEP
    ),
    "signing": Verb(
        "crawlstream_cli.signing.command:signing",
        "Make and publish the keys of signed requests.",
        _KEEP,
    ),
    "cost": Verb("crawlstream_cli.cost:cost", "Estimate the cost of a million pages.", _KEEP),
    "adopt": Verb(
        "crawlstream_cli.adopt:adopt",
        "Let the frontier in Redis belong to the cluster of these settings.",
        _KEEP,
    ),
    "recover": Verb(
        "crawlstream_cli.recover:recover",
        "Tell what a loss of Redis would cost; repair a Kafka partition that lost records.",
        _KEEP,
    ),
    "repartition": Verb(
        "crawlstream_cli.repartition.command:repartition",
        "Move the frontier into another number of partitions.",
        _KEEP,
        joins_cluster=False,
    ),
    "migrate": Verb(
        "crawlstream_cli.migrate.command:migrate",
        "Check what of a Scrapy Cluster project has to be changed.",
        _KEEP,
        joins_cluster=False,
    ),
    "test": Verb(
        "crawlstream_cli.dev.tests:run_tests",
        "Run the tests; they start their own servers.",
        _WORK,
        joins_cluster=False,
        passes_options=True,
    ),
    "check": Verb(
        "crawlstream_cli.dev.checks:run_checks",
        "Run the static checks.",
        _WORK,
        joins_cluster=False,
    ),
    "chaos": Verb(
        "crawlstream_chaos.command:chaos",
        "Inject faults into a test cluster and audit the result.",
        _WORK,
        joins_cluster=False,
    ),
    "bench": Verb(
        "crawlstream_cli.dev.bench:bench", "Run a benchmark.", _WORK, joins_cluster=False
    ),
}


class _LazyVerb(TyperCommand):
    """A verb that is imported when it is called, not when it is listed."""

    def __init__(self, name: str, verb: Verb) -> None:
        super().__init__(name, help=verb.summary, rich_help_panel=verb.panel)
        self._verb = verb

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Hand over to the real command."""
        return self._load().make_context(info_name, args, parent, **extra)

    def _load(self) -> Any:
        from crawlstream.boot.log import configure_for_command
        from crawlstream_cli.common.helptext import readable

        configure_for_command()
        if self._verb.joins_cluster:
            from crawlstream_cli.local.cluster import adopt_running_cluster

            adopt_running_cluster()
        module, _, name = self._verb.target.partition(":")
        found = getattr(import_module(module), name)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False)
            settings = {"ignore_unknown_options": self._verb.passes_options}
            found.command(self.name, context_settings=settings)(function)
        return readable(typer.main.get_command(found))


class _Verbs(TyperGroup):
    """The table of verbs as a click group, which suggests those that a mistyped one is like."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: _LazyVerb(name, verb) for name, verb in VERBS.items() if verb.is_installed()
        }

    def get_help_option(self, ctx: Any) -> Any:
        """The option ``--help``, which takes no value."""
        option = super().get_help_option(ctx)
        if option:
            option.metavar = ""
        return option


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
        "--version",
        callback=_print_version,
        is_eager=True,
        metavar="",
        help="Show the version and exit.",
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
        return _refuse(str(error), 2 if isinstance(error, ConfigError | KafkaRefused) else 1)
    except Exception as error:  # noqa: BLE001  the last resort of a whole process
        told = "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves_of(error))
        return _refuse(f"unexpected {told}", 1)
    return 0


def _load_env_file() -> None:
    """Load ``.env`` into the environment, so that child processes use it, too.

    A person sees which file it was: in another user's folder it may lead to other servers.
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
