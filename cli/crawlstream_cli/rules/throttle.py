"""``crawlstream throttle``: the rules of politeness, read and changed in ZooKeeper."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError
from crawlstream.model.inspection import DomainReport, GateReport
from crawlstream.model.rule_field import RuleField
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleTable, site_of
from crawlstream.model.url import domain_key, fold_host
from crawlstream.throttle.edit import DEFAULT
from crawlstream.wire import views
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.nodes import edit_node
from crawlstream_cli.common.times import seconds_of
from crawlstream_cli.rules.groups import address_limit, addresses, group
from crawlstream_cli.rules.node import rules_editor
from crawlstream_frontier.throttle_rules import SCOPES

throttle = typer.Typer(
    help="Show and change the rate limit of each domain; changes take effect immediately.",
    no_args_is_help=True,
    add_completion=False,
)

throttle.add_typer(group, name="group")
throttle.command("addresses")(addresses)

Domain = Annotated[
    str,
    typer.Argument(
        metavar="DOMAIN|default",
        help="A registrable domain, or a host name (applies to its subdomains too).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the rules as JSON.")]

_MOST_NAMES = 20
"""Maximum number of hosts in one sentence."""


@throttle.command("get")
def get_rules(
    domain: Annotated[
        str | None,
        typer.Argument(metavar="[DOMAIN|default]", help="Show only this rule; default: all rules."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show one rule or all rules.

    Example: crawlstream throttle get example.com
    """
    show_table(edit_node(rules_editor().read()), domain, as_json=as_json)


def _has_rule_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of a rule, in place of its ``**fields``."""
    domain, *others, _ = inspect.signature(command, eval_str=True).parameters.values()
    options = [_option_of(field) for field in RULE_FIELDS]
    shown = inspect.Signature([domain, *options, *others])
    command.__signature__ = shown  # type: ignore[attr-defined]  # Typer looks here
    return command


def _option_of(field: RuleField) -> inspect.Parameter:
    least, most = field.bounds
    option = typer.Option(field.flags, min=least, max=most, help=field.meaning)
    kind: Any = Annotated[field.kind | None, option]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, keyword, default=None, annotation=kind)


@throttle.command("set")
@_has_rule_options
def set_rule(domain: Domain, *, as_json: AsJson = False, **fields: float | None) -> None:
    """Set the rule of a domain, or of "default"; options that are not given keep their values.

    The most specific rule wins. A rule for shop.example.com applies to that host and its
    subdomains, whose requests are then counted separately from the rest of example.com.

    Example: crawlstream throttle set example.com --hits 2 --window 1
    """
    if all(value is None for value in fields.values()):
        options = ", ".join(field.flags.partition("/")[0] for field in RULE_FIELDS)
        raise ConfigError(
            f"nothing to set for {domain}: give at least one of {options};"
            f" `{COMMAND} throttle get {domain}` shows its rule"
        )
    show_table(edit_node(rules_editor().set_rule(domain, **fields)), domain, as_json=as_json)


@throttle.command("pause")
def pause(
    domain: Domain,
    for_s: Annotated[
        int,
        typer.Option(
            "--for", parser=seconds_of, metavar="TIME", help="How long: 90s, 45min, 1h, 2d."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Pause a domain for some time: nothing is fetched from it, its queued pages are kept.

    The pause is part of its rule; a domain without a rule gets a copy of the default rule.

    Example: crawlstream throttle pause example.com --for 1h
    """
    until = int(time.time()) + for_s
    table = edit_node(rules_editor().set_rule(domain, paused_until=until))
    show_table(table, domain, as_json=as_json)


@throttle.command("resume")
def resume(domain: Domain, as_json: AsJson = False) -> None:
    """End the pause of a domain."""
    show_table(edit_node(rules_editor().set_rule(domain, paused_until=0)), domain, as_json=as_json)


@throttle.command("rm")
def remove_rule(domain: Domain, as_json: AsJson = False) -> None:
    """Remove the rule of a domain, so that the default rule applies."""
    show_table(edit_node(rules_editor().remove_rule(domain)), domain, as_json=as_json)


@throttle.command("block")
def block(domain: Domain, as_json: AsJson = False) -> None:
    """Block a domain: nothing is fetched from it, its queued pages are kept."""
    show_table(edit_node(rules_editor().block(domain)), domain, as_json=as_json)


@throttle.command("unblock")
def unblock(domain: Domain, as_json: AsJson = False) -> None:
    """Unblock a domain."""
    show_table(edit_node(rules_editor().unblock(domain)), domain, as_json=as_json)


@throttle.command("show")
def show(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="A domain or host name.")],
    kept_for: Annotated[
        str,
        typer.Option(
            "--for",
            help=(
                "Scope of the limits, if the cluster keeps them per spider type or egress group."
            ),
            metavar="SPIDER[@GROUP]",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show why a domain is throttled now: its rule, back-off, Crawl-delay, requests in flight.

    The command reads the rules that the frontier applies; it works without ZooKeeper.

    Example: crawlstream throttle show example.com
    """
    host = fold_host(domain)
    table, report = asyncio.run(_standing(host, kept_for))
    if as_json:
        source = table.source_of(report.domain) if table else "none"
        shown = {**views.domain(report), "source": source, "mzxid": table.mzxid if table else None}
        del shown["queues"]
        print_line(orjson.dumps(shown).decode())
        return
    for name, value in standing_rows(report, why(table, host)):
        print_line(f"{name:<13} {value}")


@throttle.command("adopt")
def adopt(as_json: AsJson = False) -> None:
    """Accept the rules of a replaced ZooKeeper even though their version is older.

    Redis-monitors copy rules to Redis only if their version is newer than the active one. A
    recreated node starts with a low version again, so its rules are ignored until this command
    accepts them.
    """
    table = edit_node(rules_editor().read())
    asyncio.run(_copy(table))
    show_table(table, as_json=as_json)


@throttle.command("rescope")
def rescope() -> None:
    """Apply changed values of SCHEDULER_TYPE_ENABLED and SCHEDULER_IP_ENABLED to the cluster.

    First stop all processes that were started with other values. Each domain starts with a used-up
    window, so that no limit is exceeded.
    """
    scope = load_settings().throttle_scope
    asyncio.run(_rescope(scope))
    print_line(f"limits are now kept {SCOPES[scope]}")


async def _rescope(scope: str) -> None:
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        await frontier.rules.agree(scope, by_force=True)


async def _standing(host: str, view: str) -> tuple[ThrottleTable | None, DomainReport]:
    """The rules, and what the frontier has of the site that a host is counted under."""
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        table = await frontier.rules.table()
        return table, await frontier.inspector.domain(site_of(table, host), view)


async def _copy(table: ThrottleTable) -> None:
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        await frontier.rules.copy(table, adopt=True)


def why(table: ThrottleTable | None, host: str) -> str:
    """Return which rule applies to a host, in words."""
    if table is None:
        return "no rules have been copied to Redis yet, so nothing is fetched"
    block, named, site = table.block_of(host), table.named_rule(host), table.site_of(host)
    if block is not None:
        return f"{block} is on the blacklist"
    if named is None:
        return "the default" if site == host else f"the default, for all of {site}"
    return (
        "its own"
        if named == host
        else f"that of {named}, the most specific rule that covers {host}"
    )


def standing_rows(report: DomainReport, reason: str) -> Sequence[tuple[str, str]]:
    """Return the rows that describe a domain."""
    is_open = report.rule is not None and report.rule.effective_hits > 0
    delay_s = report.crawl_delay_ms / 1000
    unsure = f", {report.unreported} of them not yet confirmed as sent" if report.unreported else ""
    rows = [
        ("domain", report.domain),
        *([("limits of", report.kept_for)] if report.kept_for else []),
        ("rule", str(report.rule) if is_open else "blocked"),
        ("source", reason),
        ("Crawl-delay", f"{delay_s:g} s between requests" if delay_s else "none known"),
        ("back-off", back_off(report)),
        *([("latency", latency(report))] if report.rule and report.rule.gentle else []),
        ("in flight", f"{report.under_way}{unsure}"),
        *([("group", group_state(report.gate))] if report.gate else []),
    ]
    if is_open:
        spacing_ms, source = report.spacing
        rows.append(("spacing", f"{spacing_ms / 1000:.3g} s, {_SOURCES[source]}"))
        later = f"in {report.next_ms / 1000:.1f} s at the earliest"
        rows.append(("next request", later if report.next_ms else "now"))
    return rows


_SOURCES = {
    "rule": "by its rule",
    "robots": "by its robots.txt",
    "answers": "by its own answers",
    "gentle": "by its latency",
}


def group_state(gate: GateReport) -> str:
    """Return the limit that a domain has in common with others, and its state, in words."""
    later = f"in {gate.next_ms / 1000:.1f} s at the earliest" if gate.next_ms else "now"
    waiting = f"{gate.waiting:,} domain{'s' * (gate.waiting != 1)} waiting"
    return f"{gate.group}: {gate.rule}; {gate.under_way} in flight, {waiting}, next request {later}"


def latency(report: DomainReport) -> str:
    """Return the latency of a domain whose rule is gentle, in words."""
    if not report.latency_ms:
        return "not known yet"
    lowest = f"{report.lowest_latency_ms:,} ms" if report.lowest_latency_ms else "not known yet"
    return f"{report.latency_ms:,} ms to the first byte; at its lowest: {lowest}"


def back_off(report: DomainReport) -> str:
    """Return why a domain gets fewer requests now, if it does."""
    if report.is_outside_hours:
        return "none; its robots.txt wants no visits at this time of day (Visit-time)"
    if not report.strikes:
        silent = f"none, but {report.silences} connections in a row failed"
        return silent if report.silences else "none"
    what = "did not answer" if report.silences else "refused"
    return (
        f"it {what} {report.strikes} times in a row, for {report.unanswered_ms / 1000:.0f} s now;"
        " the crawlers probe it with one request at a time"
    )


def show_table(table: ThrottleTable, domain: str | None = None, *, as_json: bool = False) -> None:
    """Print the rules, or the one that applies to a domain."""
    asked = _asked(table, domain)
    if as_json:
        print_line(orjson.dumps(views.throttle_table(asked)).decode())
        return
    rules = dict(sorted(asked.rules.items()))
    if domain in {None, DEFAULT}:
        rules = {DEFAULT: table.default, **rules}
    fields = [field for field in RULE_FIELDS if any(map(field.is_told, rules.values()))]
    shown = Table("domain", *(field.label for field in fields), "", box=None)
    for name, rule in rules.items():
        blocked = name != DEFAULT and table.block_of(fold_host(name)) is not None
        cells = (field.shown(field.value_of(rule)) for field in fields)
        shown.add_row(name, *cells, "blocked" if blocked else "")
    for name in sorted(table.blacklist - rules.keys() if domain is None else ()):
        shown.add_row(name, *[""] * len(fields), "blocked")
    stdout_console().print(shown)
    for line in explanations(table, domain):
        print_line(line)
    if table.groups.by_name and domain is None:
        print_line(f"Groups with one more limit: {', '.join(table.groups.by_name)}.")
    if table.groups.addresses and domain is None:
        print_line(f"{address_limit(table)}.")


def explanations(table: ThrottleTable, domain: str | None) -> Sequence[str]:
    """Return notes about a rule for a part of a domain, or one inherited from a parent domain."""
    host = fold_host(domain or DEFAULT)
    if host == DEFAULT:
        return ()
    site, whole = table.site_of(host), domain_key(host)
    if site != host:
        return (f"{host} is counted as part of {site}; its rule: {why(table, host)}.",)
    if site != whole:
        return (f"{site} and its subdomains are counted separately from the rest of {whole}.",)
    apart = sorted(name for name, of in table.parted().items() if of == whole)
    more = f" and {len(apart) - _MOST_NAMES:,} more" if len(apart) > _MOST_NAMES else ""
    return (f"Counted separately: {', '.join(apart[:_MOST_NAMES])}{more}.",) if apart else ()


def _asked(table: ThrottleTable, domain: str | None) -> ThrottleTable:
    """Return the requested rules: all, or the default and the rule that applies to a domain."""
    if domain is None:
        return table
    own = {} if domain == DEFAULT else {domain: table.rule_for(fold_host(domain))}
    return replace(table, rules=own)
