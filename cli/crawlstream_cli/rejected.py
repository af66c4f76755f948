"""``crawlstream rejected``: requests and pages that took no effect, the reasons, and replays.

Clients that write to the incoming topic decide how much is rejected, so the topic is read as a
stream: only the rejections that are shown, or fed next, are in memory.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import structlog
import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.bus.tail import read_topic
from crawlstream.errors import CrawlstreamError
from crawlstream.model.event import Rejection
from crawlstream.model.words.quantities import by_reason
from crawlstream.wire import jsontext, rejects, requests
from crawlstream_cli.common.cluster_requests import ends_of, open_sink
from crawlstream_cli.common.columns import TableColumn, cell, print_columns
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.times import moment
from crawlstream_cli.common.words import counted, in_words

_BATCH = 500
"""Records between two acknowledgements, at most,"""
_BATCH_BYTES = 16 * 1024 * 1024
"""and their bytes, from which on no other is added."""

_REMEMBERED = 100_000
"""Names among which one that comes again is recognised: a crash repeats the latest only."""

_NAME_WIDTH = 12
_NARROW_WHY = 36
"""Characters of a reason below which it has lines of its own."""

log = structlog.get_logger()
rejected = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Show rejected records and replay them.",
)


@dataclass(frozen=True, slots=True)
class Item:
    """A rejection with the id that a person uses for it."""

    id: str
    """Id: ``topic-partition-offset`` of the record; the page's id for a page that killed its
    workers."""
    rejection: Rejection
    at_ms: int
    """When it was rejected."""
    size: int | None
    """Bytes of the record; None where they were not kept."""


@dataclass(slots=True)
class _Fed:
    """Result of a replay."""

    replayed: int = 0
    without_bytes: int = 0


Reason = Annotated[str | None, typer.Option(help="Only records with this rejection reason.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


@rejected.command("list")
def list_(
    reason: Reason = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, help="Show at most this many, the latest ones."),
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List rejected records, the latest last, and their number per reason.

    Example: crawlstream rejected list --reason bad_url
    """
    counts, latest = asyncio.run(_latest(load_settings(), reason=reason, limit=limit))
    if as_json:
        for item in latest:
            _write_json(_as_json(item, with_text=False))
        return
    _show_table(counts, latest)


@rejected.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="ID as shown by `list`.")],
    as_json: AsJson = False,
) -> None:
    """Show all details of one rejected record, including its content."""
    (item,) = asyncio.run(_named(load_settings(), [name]))
    fields = _as_json(item, with_text=True)
    if as_json:
        _write_json(fields)
        return
    # In no table: to lay out a megabyte takes rich minutes.
    for key, value in fields.items():
        for line in value if isinstance(value, list) else [value]:
            print_line(f"{key:<{_NAME_WIDTH}}{line}")


@rejected.command("replay")
def replay(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="IDs as shown by `list`.")
    ] = None,
    reason: Reason = None,
    every: Annotated[bool, typer.Option("--all", help="Replay all rejected records.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay rejected records: send the same bytes to the incoming topic again.

    Replayed records are validated like new ones, so invalid ones are rejected again. A record that
    is replayed twice takes effect twice. Records keep their order within each partition.

    Example: crawlstream rejected replay --reason put_failed
    """
    if not (names or reason or every):
        raise CrawlstreamError("choose what to replay: IDs from `rejected list`, --reason or --all")
    settings = load_settings()
    fed = asyncio.run(_replay(settings, names or (), reason))
    _tell(fed, settings, as_json=as_json)


async def _latest(
    settings: Settings, *, reason: str | None, limit: int
) -> tuple[Counter[str], Sequence[Item]]:
    """Return the number of each reason, and the latest records in the order of their time."""
    counts: Counter[str] = Counter()
    latest: list[tuple[int, int, Item]] = []
    async with aclosing(_items(settings, reason)) as items:
        async for item in items:
            counts[item.rejection.reason] += 1
            lean = replace(item, rejection=replace(item.rejection, raw=None))
            heapq.heappush(latest, (item.at_ms, counts.total(), lean))
            if len(latest) > limit:
                heapq.heappop(latest)
    return counts, [item for _, _, item in sorted(latest, key=lambda each: each[:2])]


async def _named(settings: Settings, names: Sequence[str]) -> Sequence[Item]:
    """Return the items with these ids, in their order; CrawlstreamError for an unknown id."""
    wanted = dict.fromkeys(names)
    found: dict[str, Item] = {}
    async with aclosing(_items(settings)) as items:
        async for item in items:
            if item.id in wanted:
                found[item.id] = item
    for name in wanted:
        if name not in found:
            raise CrawlstreamError(f"no rejected record has the ID {name}: see `rejected list`")
    return [found[name] for name in wanted]


async def _replay(settings: Settings, names: Sequence[str], reason: str | None) -> _Fed:
    """Feed those of these names again, or all, or all of a reason."""
    fed, batch = _Fed(), list[Item]()
    async with open_sink(settings) as sink, aclosing(_to_feed(settings, names, reason)) as items:
        async for item in items:
            if item.rejection.raw is None:
                fed.without_bytes += 1
                continue
            batch.append(item)
            if len(batch) == _BATCH or sum(each.size or 0 for each in batch) >= _BATCH_BYTES:
                await _feed_again(settings, sink, batch)
                batch.clear()
            fed.replayed += 1
        await _feed_again(settings, sink, batch)
    return fed


async def _to_feed(
    settings: Settings, names: Sequence[str], reason: str | None
) -> AsyncGenerator[Item, None]:
    if names:
        for item in await _named(settings, names):
            if reason in {None, item.rejection.reason}:
                yield item
        return
    async with aclosing(_items(settings, reason)) as items:
        async for item in items:
            yield item


async def _items(settings: Settings, reason: str | None = None) -> AsyncGenerator[Item, None]:
    """All rejections, each once, as they stand in their partitions."""
    await ends_of(settings, settings.topics.rejected)
    seen: OrderedDict[str, None] = OrderedDict()
    async with aclosing(_read(settings)) as items:
        async for item in items:
            if item.id in seen:
                continue  # Told twice, after a crash.
            seen[item.id] = None
            if len(seen) > _REMEMBERED:
                seen.popitem(last=False)
            if reason in {None, item.rejection.reason}:
                yield item


async def _read(settings: Settings) -> AsyncGenerator[Item, None]:
    topic = settings.topics.rejected
    records = read_topic(kafka_of(settings), topic, from_beginning=True, follow=False)
    async for record in records:
        place = f"{record.topic}-{record.partition}-{record.offset}"
        try:
            rejection = rejects.decode(record.value or b"")
        except ValueError as error:
            log.warning("decode", record=place, error=str(error))
            continue
        name = record.key.decode("utf-8", "replace") if record.key else place
        size = None if rejection.raw is None else len(rejection.raw)
        yield Item(name, rejection, record.timestamp_ms, size)


async def _feed_again(settings: Settings, sink: Sink, items: Sequence[Item]) -> None:
    topic = settings.topics.incoming
    await sink.send(
        [
            Out(
                topic,
                item.rejection.raw or b"",
                requests.key_of(item.rejection.raw),
                headers=((rejects.REPLAY_HEADER, item.id.encode()),),
            )
            for item in items
        ]
    )


def _tell(fed: _Fed, settings: Settings, *, as_json: bool) -> None:
    topic = settings.topics.incoming
    if as_json:
        _write_json({**asdict(fed), "topic": topic})
        return
    print_line(f"Replayed {counted(fed.replayed, 'record')} to {topic}.")
    if fed.without_bytes:
        print_line(f"{fed.without_bytes:,} cannot be replayed: their content was not stored.")


def _show_table(counts: Counter[str], latest: Sequence[Item]) -> None:
    if not latest:
        print_line("No rejected records.")
        return
    console, columns = _plain_console(), _columns(latest)
    if sum(column.width for column in columns) <= console.width:
        print_columns(console, columns)
    else:
        for *heading, why in zip(*(column.cells for column in columns), strict=True):
            console.print(Text("  ").join(heading))
            console.print(Padding(why, (0, 0, 0, 2)))
    console.print(f"{counted(counts.total(), 'rejected record')}: {by_reason(counts)}")


def _columns(items: Sequence[Item]) -> Sequence[TableColumn]:
    whys = ["; ".join(map(in_words, item.rejection.errors)) for item in items]
    return (
        TableColumn(name="id", cells=[cell(item.id) for item in items]),
        TableColumn(name="rejected", cells=[cell(moment(item.at_ms / 1000)) for item in items]),
        TableColumn(name="reason", cells=[cell(item.rejection.reason) for item in items]),
        TableColumn(name="why", cells=[cell(why) for why in whys], narrowest=_NARROW_WHY),
    )


def _as_json(item: Item, *, with_text: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": item.id, "at": _time(item.at_ms)} | asdict(item.rejection)
    raw = fields.pop("raw")
    fields["errors"] = list(item.rejection.errors)
    fields["size"] = item.size
    if with_text:
        fields["text"] = None if raw is None else raw.decode("utf-8", "backslashreplace")
    return fields


def _plain_console() -> Console:
    """Return a console that does not interpret clients' text as markup."""
    return stdout_console(markup=False, highlight=False)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _write_json(value: Mapping[str, object]) -> None:
    print_line(jsontext.dumps(value).decode())
