"""The command line: each verb of the table is loaded when it is used.

What a person gets when something is wrong is one sentence on standard error: exit 2 for a wrong
setting or a wrong call, 1 for all else. CRAWLSTREAM_DEBUG=1 adds the trace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from crawlstream import __version__
from crawlstream.errors import ConfigError, CrawlstreamError, KafkaRefused
from crawlstream.tasks import leaves_of
from crawlstream_cli.verbs import PURPOSE, VERBS, Verb


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

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its options, which take no value."""
        flags: list[Any] = super().get_params(ctx)
        for flag in flags:
            flag.metavar = ""
        return flags


app = typer.Typer(
    cls=_Verbs,
    name="crawlstream",
    no_args_is_help=True,
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


@app.callback(help=PURPOSE)
def _root(version: _Version = False) -> None:
    """The options of the command itself."""


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
    if sys.stderr.isatty() and "_CRAWLSTREAM_COMPLETE" not in os.environ:
        sys.stderr.write(f"crawlstream: also reading settings from {file.resolve()}\n")


def _refuse(sentence: str, status: int) -> int:
    if os.environ.get("CRAWLSTREAM_DEBUG") == "1":
        raise  # noqa: PLE0704  the error that is being handled
    from crawlstream.boot.printable import printable

    sys.stderr.write(f"crawlstream: {printable(' '.join(sentence.split()))}\n")
    return status
