"""``crawlstream rejected``: what took no effect, why, and how it gets a second chance."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import structlog
import typer
from rich.console import Console
from rich.table import Table

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.bus.records import Out
from crawlstream.bus.tail import read_topic
from crawlstream.cli.ask import ends_of, open_sink
from crawlstream.cli.console import stdout_console
from crawlstream.errors import CrawlstreamError
from crawlstream.model.event import Rejection
from crawlstream.wire import rejects, requests

_BATCH = 500
"""Records between two acknowledgements."""

log = structlog.get_logger()
rejected = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Show what took no effect, and feed it again.",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One rejection under the name by which a person calls it."""

    id: str
    """``topic-partition-offset`` of the record; of a page that killed its workers, the page's."""
    rejection: Rejection
    at_ms: int
    """When it was rejected."""


Reason = Annotated[str | None, typer.Option(help="Only those that were rejected for this.")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, one object a line.")]


@rejected.command("list")
def list_(
    reason: Reason = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Show so many of the latest.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List what was rejected, the latest last, and how many there are of each reason.

    Example: crawlstream rejected list --reason bad_url
    """
    items = asyncio.run(_items(load_settings(), reason=reason))
    if as_json:
        for item in items[-limit:]:
            _write_json(_as_json(item, with_text=False))
        return
    _show_table(items, limit)


@rejected.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show one rejection with everything that is known of it, its text included."""
    (item,) = _chosen(asyncio.run(_items(load_settings())), [name])
    fields = _as_json(item, with_text=True)
    if as_json:
        _write_json(fields)
        return
    table = Table(box=None, show_header=False)
    for key, value in fields.items():
        table.add_row(key, "\n".join(value) if isinstance(value, list) else str(value))
    _plain_console().print(table)


@rejected.command("replay")
def replay(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="As `list` shows them.")
    ] = None,
    reason: Reason = None,
    every: Annotated[bool, typer.Option("--all", help="Whatever the reason.")] = False,
    as_json: AsJson = False,
) -> None:
    """Feed rejected records again: the same bytes, as new records of the incoming topic.

    They are judged like any others, so what is still wrong is rejected again; what is replayed
    twice takes effect twice.

    Example: crawlstream rejected replay --reason put_failed
    """
    if not (names or reason or every):
        raise CrawlstreamError(
            "say what to feed again: an ID of `rejected list`, --reason or --all"
        )
    settings = load_settings()
    items = asyncio.run(_items(settings, reason=reason))
    chosen = _chosen(items, names) if names else items
    whole = [item for item in chosen if item.rejection.raw is not None]
    asyncio.run(_feed_again(settings, whole))
    _tell(len(whole), len(chosen) - len(whole), settings, as_json=as_json)


async def _items(settings: Settings, *, reason: str | None = None) -> Sequence[Item]:
    """All rejections, each once, in the order of their time."""
    await ends_of(settings, settings.topics.rejected)
    found: dict[str, Item] = {}
    async with aclosing(_read(settings)) as items:
        async for item in items:
            if reason in {None, item.rejection.reason}:
                # One that was told twice, after a crash, is the same under the same name.
                found[item.id] = item
    return sorted(found.values(), key=lambda item: item.at_ms)


async def _read(settings: Settings) -> AsyncGenerator[Item, None]:
    topic = settings.topics.rejected
    records = read_topic(settings.KAFKA_HOSTS, topic, from_beginning=True, follow=False)
    async for record in records:
        place = f"{record.topic}-{record.partition}-{record.offset}"
        try:
            rejection = rejects.decode(record.value or b"")
        except ValueError as error:
            log.warning("decode", record=place, error=str(error))
            continue
        name = record.key.decode("utf-8", "replace") if record.key else place
        yield Item(name, rejection, record.timestamp_ms)


def _chosen(items: Sequence[Item], names: Sequence[str]) -> Sequence[Item]:
    by_name = {item.id: item for item in items}
    for name in names:
        if name not in by_name:
            raise CrawlstreamError(f"nothing was rejected as {name}: see `rejected list`")
    return [by_name[name] for name in dict.fromkeys(names)]


async def _feed_again(settings: Settings, items: Sequence[Item]) -> None:
    topic = settings.topics.incoming
    records = [
        Out(
            topic,
            item.rejection.raw or b"",
            requests.key_of(item.rejection.raw),
            headers=((rejects.REPLAY_HEADER, item.id.encode()),),
        )
        for item in items
    ]
    async with open_sink(settings) as sink:
        for start in range(0, len(records), _BATCH):
            await sink.send(records[start : start + _BATCH])


def _tell(replayed: int, without_bytes: int, settings: Settings, *, as_json: bool) -> None:
    topic = settings.topics.incoming
    if as_json:
        _write_json({"replayed": replayed, "without_bytes": without_bytes, "topic": topic})
        return
    _say(f"Fed {replayed} record{'s' * (replayed != 1)} again, with the same bytes, into {topic}.")
    if without_bytes:
        _say(f"{without_bytes} cannot be fed again: their bytes were not kept.")


def _show_table(items: Sequence[Item], limit: int) -> None:
    if not items:
        _say("Nothing was rejected.")
        return
    table = Table(box=None, header_style="bold")
    table.add_column("id", overflow="fold")
    for name in ("rejected at", "reason"):
        table.add_column(name, no_wrap=True)
    table.add_column("why")
    for item in items[-limit:]:
        table.add_row(
            item.id, _time(item.at_ms), item.rejection.reason, "; ".join(item.rejection.errors)
        )
    console = _plain_console()
    console.print(table)
    counts = Counter(item.rejection.reason for item in items)
    told = ", ".join(f"{reason} {count}" for reason, count in counts.most_common())
    console.print(f"{len(items)} in all: {told}")


def _as_json(item: Item, *, with_text: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": item.id, "at": _time(item.at_ms)} | asdict(item.rejection)
    raw = fields.pop("raw")
    fields["errors"] = list(item.rejection.errors)
    fields["size"] = None if raw is None else len(raw)
    if with_text:
        fields["text"] = None if raw is None else raw.decode("utf-8", "backslashreplace")
    return fields


def _plain_console() -> Console:
    """What clients wrote is not markup."""
    return stdout_console(markup=False, highlight=False)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _write_json(value: Mapping[str, object]) -> None:
    _say(orjson.dumps(value).decode())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
