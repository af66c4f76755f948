"""``crawlstream recover``: what would be done if Redis were lost now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import orjson
import typer
from rich.table import Table

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.bus.history import PartitionOffsets, marks_of, partition_offsets, read_all
from crawlstream.bus.topics import list_topics
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.run_marks import Past, RunMark
from crawlstream.model.statuses import ENDED
from crawlstream_cli.common.cluster_requests import ends_of
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.lost_log import recover_partition
from crawlstream_cli.common.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Contents of a new Redis after recovery."""

    partitions: Mapping[int, PartitionOffsets]
    unfinished: Mapping[CrawlKey, int]
    """Number of the open run, by crawl: these begin again."""
    ended: int
    """Runs that are over, and stay so."""
    out_of_reach: frozenset[CrawlKey]
    """Unfinished crawls of which Kafka has deleted seeds: they would begin without them."""

    @property
    def to_read(self) -> int:
        """Records that would be read again."""
        return sum((h.committed or h.oldest) - h.oldest for h in self.partitions.values())

    @property
    def to_take(self) -> int:
        """Records after the last commit, which kafka-monitors take next."""
        return sum(h.end - (h.committed or h.oldest) for h in self.partitions.values())


def recover(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done without doing it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    partition: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=(
                "Partition of the incoming topic that lost records; without --from, only show its"
                " state."
            ),
        ),
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="OFFSET|begin|end|loss",
            help="Offset at which --partition continues; all kafka-monitors must be stopped."
            " loss: the first lost offset, so that every new record takes effect once.",
        ),
    ] = "",
) -> None:
    """Estimate the cost of losing Redis, or resume a Kafka partition that lost records.

    A loss of Redis needs no command: a kafka-monitor that finds Redis empty restores the crawls
    from Kafka.

    Example: crawlstream recover --dry-run
    """
    if partition is not None:
        asyncio.run(recover_partition(load_settings(), partition, begin, as_json=as_json))
        return
    if begin:
        raise CrawlstreamError("--from has no effect alone: add --partition")
    if not dry_run:
        raise CrawlstreamError(
            "nothing to do: a kafka-monitor that finds Redis empty restores the crawls by"
            " itself; use --dry-run to see what it would do"
        )
    outlook = asyncio.run(_outlook(load_settings()))
    if as_json:
        print_line(orjson.dumps(_as_json(outlook), default=str).decode())
    else:
        _show(outlook)


async def _outlook(settings: Settings) -> Outlook:
    topics, kafka = settings.topics, kafka_of(settings)
    await ends_of(settings, topics.incoming)
    # A cluster that takes over another one's topics has none of its own before its first start.
    is_new = topics.runs not in await list_topics(kafka)
    marks = [] if is_new else marks_of(await read_all(kafka, topics.runs))
    partitions = await partition_offsets(kafka, topics.incoming, group=settings.kafka_group)
    past = Past(marks)
    unfinished = past.unfinished()
    return Outlook(
        partitions=partitions,
        unfinished=unfinished,
        ended=sum(mark.state in ENDED for mark in marks),
        out_of_reach=frozenset(_out_of_reach(marks, unfinished, partitions)),
    )


def _out_of_reach(
    marks: list[RunMark],
    unfinished: Mapping[CrawlKey, int],
    partitions: Mapping[int, PartitionOffsets],
) -> Iterator[CrawlKey]:
    for mark in marks:
        if unfinished.get(mark.crawl) != mark.run:
            continue
        for place, first in mark.positions.items():
            partition = partitions.get(int(place.rpartition(":")[2]))
            if partition and first < partition.oldest:
                yield mark.crawl


def _as_json(outlook: Outlook) -> Mapping[str, object]:
    return {
        "unfinished": [
            {**asdict(crawl), "run": run, "out_of_reach": crawl in outlook.out_of_reach}
            for crawl, run in outlook.unfinished.items()
        ],
        "ended": outlook.ended,
        "records_to_read": outlook.to_read,
        "records_to_take": outlook.to_take,
        "partitions": {str(p): asdict(found) for p, found in outlook.partitions.items()},
    }


def _show(outlook: Outlook) -> None:
    console = stdout_console(markup=False, highlight=False)
    console.print(
        f"If Redis were lost now, {counted(outlook.to_read, 'record')} would be read again."
        f" {counted(len(outlook.unfinished), 'crawl')} would restart from their seeds;"
        f" {counted(outlook.ended, 'ended run')} would stay ended."
    )
    console.print(f"Since the last commit, {counted(outlook.to_take, 'record')} came.")
    if outlook.unfinished:
        table = Table("crawl", "app", "spider", "run", "", box=None, header_style="bold")
        for crawl, run in outlook.unfinished.items():
            warning = "older than Kafka's retention" if crawl in outlook.out_of_reach else ""
            table.add_row(crawl.crawlid, crawl.appid, crawl.spiderid, str(run), warning)
        console.print(table)
    if outlook.out_of_reach:
        console.print(
            f"Kafka has already deleted seeds of {len(outlook.out_of_reach)} of these crawls:"
            " raise retention.ms of the incoming topic."
        )
