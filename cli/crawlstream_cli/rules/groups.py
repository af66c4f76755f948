"""``crawlstream throttle group``: limits that several domains have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError
from crawlstream.model.inspection import GateReport
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import GATE, GROUP_LIMITS, Group
from crawlstream.wire import views
from crawlstream_cli.common.client import cluster_frontier
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
        typer.Argument(
            metavar="[HOST|NETWORK]...",
            help="Host names, each covers all names below it; or networks, like 192.0.2.0/24.",
        ),
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


@group.command("show")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show the limits and members of a group, and how many of its domains wait, for how long.

    The command reads the rules that the frontier applies; it works without ZooKeeper.

    Example: crawlstream throttle group show hoster
    """
    found, gates = asyncio.run(_standing(name))
    if as_json:
        print_line(orjson.dumps(_state(found, gates)).decode())
        return
    for label, value in group_rows(found, gates):
        print_line(f"{label:<13} {value}")


async def _standing(name: str) -> tuple[Group[ThrottleRule], Sequence[GateReport]]:
    """Return a group by the rules in force, and its gate in each partition."""
    async with cluster_frontier(load_settings()) as frontier:
        table = await frontier.rules.table()
        found = table.groups.by_name.get(name) if table else None
        if found is None:
            raise ConfigError(
                f"no group {name} is in force; `{COMMAND} throttle group list` shows the groups"
            )
        return found, await frontier.rules.gates([GATE + name])


def _state(found: Group[ThrottleRule], gates: Sequence[GateReport]) -> dict[str, Any]:
    """Return a group and its state, for JSON."""
    sums = ("unreported", "under_way", "waiting")
    return {
        **views.group_limits(found.rule),
        "members": views.members_of(found),
        **{key: sum(asdict(gate)[key] for gate in gates) for key in sums},
        "next_ms": min((gate.next_ms for gate in gates), default=0),
        "wait_s": max((gate.wait_s for gate in gates), default=0.0),
    }


def group_rows(
    found: Group[ThrottleRule], gates: Sequence[GateReport]
) -> Sequence[tuple[str, str]]:
    """Return the rows that describe a group."""
    state = _state(found, gates)
    later = f"in {state['next_ms'] / 1000:.1f} s at the earliest" if state["next_ms"] else "now"
    wait = f"a domain that comes now waits {state['wait_s']:.1f} s at least"
    return [
        ("limits", str(found.rule)),
        ("members", ", ".join(views.members_of(found)) or "none"),
        ("in flight", f"{state['under_way']}"),
        ("waiting", f"{state['waiting']:,} domain{'s' * (state['waiting'] != 1)}"),
        ("next request", later),
        ("wait", wait if state["waiting"] else "none"),
        *([("partitions", f"{len(gates)}, with equal shares")] if len(gates) > 1 else []),
    ]


def addresses(
    *,
    hits: Annotated[int | None, typer.Option(min=1, help=_FIELDS["hits"].meaning)] = None,
    window: Annotated[float | None, typer.Option(help=_FIELDS["window"].meaning)] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help=_FIELDS["concurrency"].meaning)
    ] = None,
    excepted: Annotated[
        list[str] | None,
        typer.Option("--except", metavar="NETWORK", help="Networks without a limit of addresses."),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove the limit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or set the limit that applies to each IP address, whatever names it has.

    It applies to sites of which no group has the name or the network. Of IPv6, a network of /64
    counts as one address.

    Example: crawlstream throttle addresses --hits 20 --window 1
    """
    limits = {"hits": hits, "window": window, "concurrency": concurrency}
    editor = rules_editor()
    if off:
        edit = editor.free_addresses()
    elif excepted or any(limit is not None for limit in limits.values()):
        edit = editor.limit_addresses(excepted or None, **limits)
    else:
        edit = editor.read()
    table = edit_node(edit)
    if as_json:
        print_line(orjson.dumps(views.throttle_table(table).get("addresses")).decode())
    else:
        print_line(address_limit(table))


def address_limit(table: ThrottleTable) -> str:
    """Return the limit of addresses, in words."""
    limits = table.groups.addresses
    if limits is None:
        return "There is no limit of addresses."
    excepted = ", ".join(map(str, limits.excepted))
    return f"Each address: {limits.rule}" + f", except in {excepted}" * bool(excepted)


def show_groups(table: ThrottleTable, *, as_json: bool) -> None:
    """Print the groups of the rules."""
    if as_json:
        print_line(orjson.dumps(views.throttle_table(table)["groups"]).decode())
        return
    if not table.groups.by_name:
        print_line("There are no groups.")
        return
    shown = Table("group", *(field.label for field in _FIELDS.values()), "members", box=None)
    for name, one in table.groups.by_name.items():
        cells = (field.shown(field.value_of(one.rule)) for field in _FIELDS.values())
        members = views.members_of(one)
        beyond = len(members) - _MOST_SHOWN
        more = f" and {beyond:,} more" if beyond > 0 else ""
        shown.add_row(name, *cells, ", ".join(members[:_MOST_SHOWN]) + more)
    stdout_console().print(shown)
