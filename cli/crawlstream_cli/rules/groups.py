"""``crawlstream throttle group``: limits that several domains have in common."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.table import Table

from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleTable
from crawlstream.model.web.throttle_groups import GROUP_LIMITS
from crawlstream.wire import views
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.nodes import edit_node
from crawlstream_cli.rules.node import rules_editor

group = typer.Typer(
    help="Show and change groups of domains that have one more limit in common.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the groups as JSON.")]
_FIELDS = {field.name: field for field in RULE_FIELDS if field.name in GROUP_LIMITS}
_MOST_SHOWN = 5
"""Members of a group in a line."""


@group.command("add")
def add(
    name: Name,
    members: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", help="Host names; each covers all names below it."),
    ] = None,
    *,
    hits: Annotated[int | None, typer.Option(min=1, help=_FIELDS["hits"].meaning)] = None,
    window: Annotated[float | None, typer.Option(help=_FIELDS["window"].meaning)] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help=_FIELDS["concurrency"].meaning)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a group, add domains to it, or change its limits.

    All domains of the group together keep to its limits, each in addition to its own rule. Use it
    for sites on one machine.

    Example: crawlstream throttle group add hoster a.example b.example --hits 5 --window 1
    """
    edit = rules_editor().add_to_group(
        name, members or (), hits=hits, window=window, concurrency=concurrency
    )
    show_groups(edit_node(edit), as_json=as_json)


@group.command("rm")
def remove(
    name: Name,
    members: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", help="Members to remove; none: the whole group."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove domains from a group, or the whole group."""
    show_groups(edit_node(rules_editor().remove_from_group(name, members or ())), as_json=as_json)


@group.command("list")
def list_groups(as_json: AsJson = False) -> None:
    """Show all groups with their limits and members."""
    show_groups(edit_node(rules_editor().read()), as_json=as_json)


def show_groups(table: ThrottleTable, *, as_json: bool) -> None:
    """Print the groups of the rules."""
    if as_json:
        print_line(orjson.dumps(views.throttle_table(table)["groups"]).decode())
        return
    if not table.groups:
        print_line("There are no groups.")
        return
    shown = Table("group", *(field.label for field in _FIELDS.values()), "members", box=None)
    for name, one in table.groups.by_name.items():
        cells = (field.shown(field.value_of(one.rule)) for field in _FIELDS.values())
        beyond = len(one.members) - _MOST_SHOWN
        more = f" and {beyond:,} more" if beyond > 0 else ""
        shown.add_row(name, *cells, ", ".join(one.members[:_MOST_SHOWN]) + more)
    stdout_console().print(shown)
