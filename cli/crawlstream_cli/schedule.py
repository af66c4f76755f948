"""``crawlstream schedule``: seeds that are fed again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, CrawlstreamError, InvalidRequest, RedisUnavailable
from crawlstream.model.recurring.schedule import Do, Schedule, ScheduleState
from crawlstream.model.recurring.times import due_at, times_of
from crawlstream.model.request import ScheduleRequest
from crawlstream.model.scope import Scope
from crawlstream.wire import jsontext, requests, views
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.cluster_requests import APPID, refusal, request_reply
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.option_sets import has_options_of
from crawlstream_cli.common.times import moment
from crawlstream_cli.common.words import counted, in_words
from crawlstream_cli.crawl.recurring import Recurring, definition_of

schedule = typer.Typer(
    help="Feed seeds at the times of a cron expression.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
Definition = Annotated[
    list[str],
    typer.Argument(
        metavar="URL...|FILE|JSON",
        help="With --cron: seed URLs. Without: the schedule as a JSON object (cron, crawl, seeds"
        " ...), or a file with one.",
    ),
]
OwnAppId = Annotated[str, typer.Option("--appid", help="Application id (appid) of the schedule.")]
AppId = Annotated[
    str | None,
    typer.Option("--appid", help="Application id (appid), if several have such a schedule."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Count = Annotated[int, typer.Option("-n", min=1, max=1000, help="How many times to show.")]


@schedule.command("set")
@has_options_of(Recurring)
def set_schedule(
    name: Name,
    definition: Definition,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check it and show its next times.")
    ] = False,
    appid: OwnAppId = APPID,
    as_json: AsJson = False,
    **wished: Any,
) -> None:
    """Create or replace a schedule.

    With --cron, URLs and options are those of `crawl`: links are followed to the hosts of the seeds
    only, unless --scope says otherwise, and each firing is a crawl of its own, called NAME and the
    time. Without --cron, a JSON object has all that a schedule can have.

    Example: crawlstream schedule set shop https://example.com/ --depth 3 --cron "30 2 * * *" --zone
    Europe/Berlin
    """
    wishes = Recurring(**wished)
    if wishes.cron is not None:
        told = definition_of(name, definition, wishes)
    elif wishes == Recurring():
        told = _read_one(definition)
    else:
        raise ConfigError("options of a crawl go with --cron and URLs; JSON has them as fields")
    if dry_run:
        parsed = _checked(load_settings(), name, told, appid=appid)
        _show_times(parsed, count=5, as_json=as_json)
        return
    reply, sentence = put(name, told, appid=appid)
    _tell(reply, sentence, as_json=as_json)


def put(name: str, told: Mapping[str, Any], *, appid: str) -> tuple[Mapping[str, Any], str]:
    """Set a schedule; return the cluster's reply, and a sentence. CrawlstreamError."""
    parsed = _checked(load_settings(), name, told, appid=appid)
    reply = _ask("set", name, appid=appid, definition=told)
    seeds = parsed.seeds_from or counted(len(parsed.seeds), "seed")
    return reply, f"Schedule {name} feeds {seeds}{_reach(parsed)}; {_next_of(reply)}."


@schedule.command("list")
def list_schedules(
    appid: Annotated[str | None, typer.Option(help="Only those of this application.")] = None,
    as_json: AsJson = False,
) -> None:
    """List all schedules: when each fires next, and what became of it so far."""
    found = asyncio.run(_all(load_settings(), appid))
    now = int(time.time())
    if as_json:
        print_line(jsontext.dumps([views.schedule(one, now) for one in found]).decode())
    elif found:
        stdout_console().print(_table(found, now))
    else:
        print_line("No schedule found.")


@schedule.command("show")
def show(name: Name, appid: AppId = None, as_json: AsJson = False) -> None:
    """Show one schedule, as JSON."""
    del as_json
    state = _one(load_settings(), name, appid)
    told = views.schedule(state, int(time.time()))
    print_line(jsontext.dumps(told, indent=True).decode())


@schedule.command("rm")
def remove(name: Name, appid: AppId = None, as_json: AsJson = False) -> None:
    """Remove a schedule; crawls that it has started go on."""
    _tell(_ask("remove", name, appid=_app_of(name, appid)), f"Removed {name}.", as_json=as_json)


@schedule.command("pause")
def pause(name: Name, appid: AppId = None, as_json: AsJson = False) -> None:
    """Pause a schedule: it does not fire until it is resumed."""
    _tell(_ask("pause", name, appid=_app_of(name, appid)), f"Paused {name}.", as_json=as_json)


@schedule.command("resume")
def resume(name: Name, appid: AppId = None, as_json: AsJson = False) -> None:
    """Resume a paused schedule; what it did not fire meanwhile is not made up for."""
    reply = _ask("resume", name, appid=_app_of(name, appid))
    _tell(reply, f"Resumed {name}; {_next_of(reply)}.", as_json=as_json)


@schedule.command("fire")
def fire(name: Name, appid: AppId = None, as_json: AsJson = False) -> None:
    """Fire a schedule once, now, even if it is paused."""
    reply = start(name, appid=_app_of(name, appid))
    is_skipped = reply.get("outcome") == "skipped"
    sentence = f"Skipped: a firing of {name} that was requested before is still pending."
    _tell(reply, sentence if is_skipped else f"Started a run of {name}.", as_json=as_json)


def start(name: str, *, appid: str) -> Mapping[str, Any]:
    """Fire a schedule now; return the cluster's reply. CrawlstreamError."""
    return _ask("fire", name, appid=appid)


@schedule.command("next")
def next_times(
    which: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE|JSON", help="A schedule of the cluster, or a new one."),
    ],
    count: Count = 5,
    appid: AppId = None,
    as_json: AsJson = False,
) -> None:
    """Show the next times of a schedule, in its time zone.

    Example: crawlstream schedule next news -n 3
    """
    settings = load_settings()
    if which.lstrip().startswith("{") or Path(which).is_file():
        found = _checked(settings, "new", _read(which), appid=appid or APPID)
    else:
        found = _one(settings, which, appid).schedule
    _show_times(found, count=count, as_json=as_json)


def _read_one(texts: Sequence[str]) -> Mapping[str, Any]:
    """The object in the one argument; ConfigError."""
    if "://" in texts[0] and not texts[0].lstrip().startswith("{"):
        raise ConfigError('URLs need --cron, such as --cron "30 2 * * *" --zone Europe/Berlin')
    if len(texts) != 1:
        raise ConfigError("expected one JSON object or file, or --cron and URLs")
    return _read(texts[0])


def _read(text: str) -> Mapping[str, Any]:
    """The object in an argument or in the file that it names."""
    raw = text.encode()
    if not text.lstrip().startswith("{"):
        try:
            raw = Path(text).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{text} is neither a JSON object nor a file that can be read ({error.strerror})"
            ) from error
    try:
        value = jsontext.loads(raw)
    except ValueError as error:
        raise ConfigError(f"the schedule is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError("the schedule must be a JSON object with cron, crawl and seeds")
    if clash := sorted(value.keys() & {"appid", "schedule", "uuid", "do"}):
        raise ConfigError(f"{', '.join(clash)}: not part of a schedule; use NAME and --appid")
    return value


def _checked(settings: Settings, name: str, told: Mapping[str, Any], *, appid: str) -> Schedule:
    """The schedule; CrawlstreamError with all that is wrong with it."""
    raw = jsontext.dumps({**told, **_names("set", name, appid), "uuid": "check"})
    try:
        # Which files may be fed is known where they are read.
        limits = replace(settings.request_limits, seed_stores=settings.seed_stores or None)
        request = requests.decode(raw, limits=limits)
    except InvalidRequest as error:
        raise CrawlstreamError("; ".join(map(in_words, error.problems))) from error
    assert isinstance(request, ScheduleRequest)
    assert request.schedule is not None
    return request.schedule


def _names(do: Do, name: str, appid: str) -> dict[str, object]:
    return {"appid": appid, "schedule": name, "do": do}


def _ask(
    do: Do, name: str, *, appid: str, definition: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """The cluster's reply; CrawlstreamError says why it refused."""
    asked = {**(definition or {}), **_names(do, name, appid)}
    reply = asyncio.run(request_reply(load_settings(), asked))
    if why := refusal(reply):
        hint = f"; `{COMMAND} schedule list` lists them" if "no such" in why else ""
        raise CrawlstreamError(f"{name}: {why}{hint}")
    return reply


def _tell(reply: Mapping[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_line(jsontext.dumps(reply).decode())
        return
    print_line(sentence)
    for warning in reply.get("warnings", ()):
        print_line(f"Note: {warning}.")


def _reach(told: Schedule) -> str:
    """Return which links are followed, where any are."""
    depth = told.crawl.get("maxdepth")
    if not depth:
        return ""
    where = "as its crawl allows" if _SCOPED & told.crawl.keys() else _PLACES[told.scope]
    return f" and follows links {counted(cast(int, depth), 'level')} deep, {where} (scope)"


_SCOPED = {"allowed_domains", "allow_regex"}
_PLACES: Mapping[Scope, str] = {
    Scope.HOST: "to the host of each seed",
    Scope.DOMAIN: "to the domain of each seed",
    Scope.PREFIX: "below each seed",
    Scope.ANY: "anywhere",
}


def _next_of(reply: Mapping[str, Any]) -> str:
    if reply.get("paused"):
        return "it is paused"
    at = reply.get("next")
    return f"next at {_in_zone(at, reply['zone'])}" if at else "it does not fire any more"


def _in_zone(at: int, zone: str) -> str:
    return datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def _show_times(told: Schedule, *, count: int, as_json: bool) -> None:
    times = [due_at(told, at) for at in islice(times_of(told, int(time.time())), count)]
    if as_json:
        print_line(orjson.dumps(times).decode())
        return
    for at in times:
        print_line(_in_zone(at, told.zone))
    if not times:
        print_line("It does not fire any more.")


async def _all(settings: Settings, appid: str | None) -> Sequence[ScheduleState]:
    async with cluster_frontier(settings) as frontier:
        return await frontier.schedules.all(appid)


def _app_of(name: str, appid: str | None) -> str:
    """Return the application that is meant: the only one with such a schedule, unless named.

    If Redis does not answer, that is the default one: the cluster replies through Kafka.
    """
    try:
        return appid or _one(load_settings(), name, None).schedule.appid
    except RedisUnavailable:
        return APPID


def _one(settings: Settings, name: str, appid: str | None) -> ScheduleState:
    """Return the only schedule of this name; CrawlstreamError if none or several fit."""
    schedules = asyncio.run(_all(settings, appid))
    found = [state for state in schedules if state.schedule.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        apps = ", ".join(f"--appid {state.schedule.appid}" for state in found)
        raise CrawlstreamError(f"several schedules are called {name}; choose one: {apps}")
    of = f" of application {appid}" if appid else ""
    raise CrawlstreamError(f"no schedule {name}{of} found: `{COMMAND} schedule list` lists them")


def _table(found: Sequence[ScheduleState], now: int) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("schedule", "app", "state", "next", "last fired"):
        table.add_column(name, overflow="fold")
    for name in ("fired", "skipped"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last skip", overflow="fold")
    for state in found:
        told = state.schedule
        at = views.schedule(state, now)["next"]
        skip = f"{state.reason}, {moment(state.skipped_at, now=now)}" if state.reason else ""
        in_a_row = f" ({state.skips} in a row)" if state.skips > 1 else ""
        table.add_row(
            escape(told.name),
            escape(told.appid),
            "paused" if state.is_paused else "active" if at else "ended",
            _in_zone(at, told.zone) if isinstance(at, int) else "never",
            moment(state.fired_at, now=now) if state.fired_at else "not yet",
            f"{state.fired:,}",
            f"{state.skipped:,}",
            skip + in_a_row,
        )
    return table
