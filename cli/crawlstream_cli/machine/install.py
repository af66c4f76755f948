"""``crawlstream install``: packages that only some features need."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from crawlstream.errors import SetupError
from crawlstream_cli.common.console import print_line
from crawlstream_cli.local.home import checkout


class Set(StrEnum):
    """Sets of packages, each a file of the folder ``requirements``."""

    PIPELINE = "pipeline"
    DELTA = "delta"
    ICEBERG = "iceberg"
    EXTRACT = "extract"
    QUERY = "query"
    TLS = "tls"
    MCP = "mcp"
    TRACES = "traces"
    DEV = "dev"
    DOCS = "docs"


def install(
    sets: Annotated[
        list[Set] | None, typer.Argument(metavar="SET", help="Sets of packages to add.")
    ] = None,
) -> None:
    """Add sets of packages to this checkout; without SET, only what all commands need.

    pipeline: Parquet files, PostgreSQL, stores at s3://. delta: Delta tables. iceberg: Iceberg
    tables. extract: the stages `text`, `document`, `language` and `minhash`, and `simhash`. query:
    SQL over files of pipelines. tls: TLS profiles of browsers. mcp: the command `mcp` and
    CRAWLSTREAM_MCP. traces: CRAWLSTREAM_TRACES. dev and docs: tests and documentation, which
    `test` and `check` add by themselves. What has been added once stays.

    Example: crawlstream install pipeline extract
    """
    # The script ./crawlstream installs them before it calls this.
    noted = checkout(".venv/.sets").read_text().split()
    if missing := [each for each in sets or () if each not in noted]:
        raise SetupError(f"only ./crawlstream itself installs: ./crawlstream install {missing[0]}")
    print_line(f"Installed: {', '.join(['what all commands need', *noted])}")
