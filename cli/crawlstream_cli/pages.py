"""``crawlstream pages``: the memory of pages, as its pipeline keeps it."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlstream_cli.pipeline import AsJson, flag, hand_over, option

pages = typer.Typer(
    no_args_is_help=True,
    help="Show the memory of pages: what is known of each, and which are due for a visit.\n\n"
    'A memory is a pipeline whose sink has kind = "pages".',
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the memory's pipeline.")]
Urls = Annotated[list[str], typer.Argument(metavar="URL...", help="URLs of pages.")]
AppId = Annotated[
    str | None,
    typer.Option(
        "--appid", help="Application of the pages; needed unless the pipeline has only one."
    ),
]


@pages.command()
def status(name: Name, as_json: AsJson = False) -> None:
    """Count the pages of a memory: gone, failing, due, fresh; and what visits come to.

    Example: crawlstream pages status news
    """
    hand_over("pages", "status", name, *flag("--json", as_json))


@pages.command()
def due(
    name: Name,
    count: Annotated[int, typer.Option("-n", min=1, max=100_000, help="Number of pages.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the pages that are visited next.

    Example: crawlstream pages due news -n 5
    """
    hand_over("pages", "due", name, "-n", str(count), *flag("--json", as_json))


@pages.command()
def changed(
    name: Name,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long ago, such as 24h or 7d, or a time: 2026-11-28T02:30Z."
        ),
    ] = "24h",
    count: Annotated[
        int, typer.Option("-n", min=0, max=100_000, help="Pages to list; --json lists all.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List the pages that are new, changed or gone since a time.

    With --json, a line for each: its URL, change and time, and its items, now and before the
    change, if the memory keeps them; pages that never had an item are left out then.

    Example: crawlstream pages changed shop --since 24h --json
    """
    arguments = (*option("--since", since), "-n", str(count), *flag("--json", as_json))
    hand_over("pages", "changed", name, *arguments)


@pages.command()
def show(name: Name, urls: Urls, appid: AppId = None, as_json: AsJson = False) -> None:
    """Show what is known of pages; exit code 1 if one is not in the memory.

    Example: crawlstream pages show news https://www.example.com/
    """
    hand_over("pages", "show", name, *urls, *option("--appid", appid), *flag("--json", as_json))


@pages.command()
def now(name: Name, urls: Urls, appid: AppId = None) -> None:
    """Visit pages as soon as possible; exit code 1 if one is not in the memory.

    Example: crawlstream pages now news https://www.example.com/
    """
    hand_over("pages", "now", name, *urls, *option("--appid", appid))
