"""``crawlstream pipeline``, ``archive`` and ``query``: each becomes the pipeline process."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

pipeline = typer.Typer(
    no_args_is_help=True,
    help="Deliver results to files, databases, tables, indexes and topics, each page once.\n\n"
    "Pipelines are described in a TOML file:"
    " CRAWLSTREAM_PIPELINES, by default pipelines.toml in the current directory.",
)

archive = typer.Typer(
    no_args_is_help=True,
    help="Look at the WARC files of pipelines, and check them.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="Names of pipelines. [default: all]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@pipeline.command()
def run(
    names: Names = None,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", help="End when all that is on the topics now is stored."),
    ] = False,
) -> None:
    """Run pipelines until stopped; what is open then is stored first.

    Several processes of one pipeline share the partitions of its source. With --until-end, the
    exit code is 0 only if all is stored.

    Example: crawlstream pipeline run archive
    """
    hand_over("run", *(names or ()), *flag("--until-end", until_end))


@pipeline.command("list")
def list_pipelines(as_json: AsJson = False) -> None:
    """List the pipelines: what each has delivered, and how many records are left.

    Example: crawlstream pipeline list
    """
    hand_over("list", *flag("--json", as_json))


@pipeline.command()
def report(
    name: Name,
    crawlid: Annotated[str | None, typer.Option(help="Only runs of this crawl.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of the records of each run, and which fields of its items fail.

    Exit code 1 if an account does not close (read = delivered + repeats + filtered + undelivered),
    or if a run that is stored is not what the pipeline expects.

    Example: crawlstream pipeline report archive --crawlid spring
    """
    hand_over("report", name, *option("--crawlid", crawlid), *flag("--json", as_json))


@pipeline.command()
def check(names: Names = None) -> None:
    """Check the file, the stages, the stores and the sources of pipelines.

    Exit code 2 if a pipeline is described wrongly or its store cannot be used safely.

    Example: crawlstream pipeline check
    """
    hand_over("check", *(names or ()))


@pipeline.command()
def preview(
    name: Name,
    count: Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of records.")] = 5,
) -> None:
    """Show the latest records as the pipeline would store them; nothing is stored.

    Example: crawlstream pipeline preview archive -n 3
    """
    hand_over("preview", name, "-n", str(count))


@pipeline.command()
def schema(
    flat: Annotated[bool, typer.Option("--flat", help="Leave out lists and maps.")] = False,
) -> None:
    """Print the schema of results for Kafka Connect, as one line of JSON.

    It is the value of `value.converter.schema.content`.

    Example: crawlstream pipeline schema --flat
    """
    hand_over("schema", *flag("--flat", flat))


@pipeline.command()
def undelivered(
    verb: Annotated[str, typer.Argument(metavar="list|show|replay", help="What to do.")],
    name: Name,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="Ids, as `list` shows them.")
    ] = None,
    *,
    reason: Annotated[str | None, typer.Option(help="Only records with this reason.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All records.")] = False,
    as_json: AsJson = False,
) -> None:
    """List, show or replay the records that a pipeline could not deliver.

    A replayed record passes the stages again, and is stored in a file of its own, under the same
    name however often it is replayed. A change that the webhook of a memory has not taken waits for
    it for another day. Exit code 1 if a record still cannot be delivered.

    Example: crawlstream pipeline undelivered replay archive --all
    """
    flags = (*flag("--all", everything), *flag("--json", as_json))
    hand_over("undelivered", verb, name, *(ids or ()), *option("--reason", reason), *flags)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT of DuckDB's SQL.")],
    *,
    count: Annotated[
        int, typer.Option("-n", min=1, max=100_000, help="Rows of the table; --csv prints all.")
    ] = 100,
    memory_mb: Annotated[
        int, typer.Option(min=256, metavar="MB", help="Memory that DuckDB may use.")
    ] = 1024,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all rows as CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Query the files of pipelines with SQL; nothing is changed.

    Each pipeline with Parquet or JSON lines files, a Delta or an Iceberg table, is a table, named
    after the pipeline, with `_` for `-`. Its columns are those of the files, and `edition` and the
    folders of `partition_by`. Needs the extra `query`: `crawlstream install query`.

    Example: crawlstream query "select status_code, count(*) from archive group by all"
    """
    flags = (*flag("--csv", as_csv), *flag("--json", as_json))
    hand_over("query", "-n", str(count), f"--memory-mb={memory_mb}", *flags, "--", sql)


@archive.command("list")
def list_archives(as_json: AsJson = False) -> None:
    """List the pipelines that write WARC files: files, pages, revisits, and what these save.

    Only the stores are read: neither Kafka nor Redis is needed.

    Example: crawlstream archive list
    """
    hand_over("archive", "list", *flag("--json", as_json))


@archive.command()
def verify(name: Name, as_json: AsJson = False) -> None:
    """Read an archive and check it: digests, records, indexes, accounts and references.

    Each WARC file is read once, as a stream, so memory does not depend on its size. Checks that the
    files are those of the accounts, with as many pages; that each page is there once, with its
    request; that indexes name the records of their files; and that each revisit refers to a record
    with its payload. Exit code 1 if there is a problem.

    Example: crawlstream archive verify pages
    """
    hand_over("archive", "verify", name, *flag("--json", as_json))


def flag(name: str, wanted: bool) -> tuple[str, ...]:
    """An option without a value, as an argument if it is wanted."""
    return (name,) if wanted else ()


def option(name: str, value: str | None) -> tuple[str, ...]:
    """An option with a value, as an argument if there is one."""
    return () if value is None else (f"{name}={value}",)


def hand_over(*arguments: str) -> None:
    """Replace this process by the pipeline process, which does not belong to the core."""
    argv = (sys.executable, "-P", "-m", "pipeline_service", *arguments)
    os.execv(sys.executable, argv)  # noqa: S606  no shell
