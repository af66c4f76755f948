"""``list`` and ``report``: how far pipelines are, and what became of what they have read."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.tail import end_offsets, topic_id_of
from crawlstream.errors import CrawlstreamError
from crawlstream.wire import jsontext
from pipeline_service.commands.printing import (
    EXIT_FAILED,
    complain,
    print_json,
    print_line,
    print_table,
)
from pipeline_service.commands.quality import MOST_RUNS, print_fields, quality_of
from pipeline_service.process import load_pipeline, load_pipelines
from pipeline_service.records.account import OF_ARCHIVES, RESERVED, Account, RecordTally, summed
from pipeline_service.sink_factory import open_kept
from pipeline_service.sinks.sink import Kept, SinkPosition
from pipeline_service.spec.config import Pipeline


@dataclass(frozen=True, slots=True)
class StoredPipeline:
    """A pipeline as its store has it."""

    ends: Mapping[int, int]
    """Offset after the last record of the source, by partition."""
    standings: Mapping[int, SinkPosition]
    """By partition."""
    place: str
    """Where its pages are, for people."""
    told: Mapping[str, Mapping[str, Any]]
    """Reports of runs that have ended, by the run's name."""

    @property
    def account(self) -> Account:
        """Account of all partitions."""
        return summed(each.account for each in self.standings.values())

    @property
    def lag(self) -> int:
        """Records that are not stored yet."""
        stored = {number: each.position or 0 for number, each in self.standings.items()}
        return sum(max(end - stored[number], 0) for number, end in self.ends.items())


async def find(settings: Settings, pipeline: Pipeline) -> StoredPipeline:
    """Look into the store. Unavailable, BrokenChain."""
    kafka, topic = kafka_of(settings), pipeline.topic(settings.topics)
    ends = await end_offsets(kafka, topic)
    name = await topic_id_of(kafka, topic)
    kept = open_kept(settings, pipeline)
    try:
        standings = await asyncio.to_thread(kept.standings, name, sorted(ends))
        return StoredPipeline(ends, standings, kept.place, await asyncio.to_thread(_reported, kept))
    finally:
        kept.close()


async def list_pipelines(settings: Settings, options: argparse.Namespace) -> int:
    """A line for each pipeline: what is delivered, what is left; 1 if one cannot be read."""
    return await summarize(settings, (), as_json=options.json)


async def summarize(settings: Settings, names: Sequence[str], *, as_json: bool = False) -> int:
    """Print a line for each of these pipelines, () are all; 1 if one cannot be read."""
    rows, status = [], 0
    for pipeline in load_pipelines(settings, names):
        try:
            found = await find(settings, pipeline)
        except CrawlstreamError as error:
            complain(f"pipeline.{pipeline.name}: {error}")
            status = EXIT_FAILED
            continue
        rows.append(_told(settings, pipeline, found))
    if as_json:
        for told in rows:
            print_json(told)
        return status
    shown = ("pipeline", "edition", "source", "lag", *_COLUMNS, "path")
    print_table(shown, [[_cell(told[name]) for name in shown] for told in rows])
    return status


def _told(settings: Settings, pipeline: Pipeline, found: StoredPipeline) -> dict[str, Any]:
    total = found.account.total
    return {
        "pipeline": pipeline.name,
        "edition": pipeline.edition,
        "source": pipeline.topic(settings.topics),
        "path": found.place,
        "lag": found.lag,
        **_numbers(total),
        "closed": total.is_closed,
    }


async def report(settings: Settings, options: argparse.Namespace) -> int:
    """The account of each run of a pipeline; 1 if one does not close, or expects what is not."""
    pipeline = load_pipeline(settings, options.name)
    found = await find(settings, pipeline)
    account, told_ends = found.account, found.told
    rows = []
    for name, tally in account.runs.items():
        appid, crawlid, spiderid, run = name.split("\t")
        if options.crawlid in (None, crawlid):
            told = {"appid": appid, "crawlid": crawlid, "spiderid": spiderid, "run": int(run)}
            end = told_ends.get(name, {})
            ending = {"done": end.get("done"), "complete": end.get("complete")}
            told |= {**_numbers(tally), **ending, "closed": tally.is_closed}
            rows.append(told | quality_of(tally, end))
    if options.json:
        for told in rows:
            print_json(told)
    elif rows:
        others = [name for name in (*_MARKS, *_OF_ITEMS) if any(name in told for told in rows)]
        names = ("appid", "crawlid", "spiderid", "run", *_COLUMNS, "done", "complete", *others)
        print_table(names, [[_cell(told.get(name)) for name in names] for told in rows])
        print_fields(rows if options.crawlid else rows[:MOST_RUNS])
    else:
        print_line("No run has been read yet.")
    if not options.json:
        _tell_rest(account.total)
    is_well = all(told["closed"] and told.get("ok", True) for told in rows)
    return 0 if account.total.is_closed and is_well else 1


_COLUMNS = ("read", "delivered", "repeats", "filtered", "undelivered")
_MARKS = ("dropped", RESERVED, *OF_ARCHIVES)
_OF_ITEMS = ("items", "score", "ok")


def _numbers(tally: RecordTally) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: getattr(tally, name) for name in ("read", "delivered")}
    reasons = {"filtered": dict(tally.filtered), "undelivered": dict(tally.undelivered)}
    marks = {"dropped": tally.dropped, RESERVED: tally.marks[RESERVED], **tally.archived}
    numbers |= {"repeats": tally.repeats} | reasons | {"lost": tally.lost}
    return numbers | {name: count for name, count in marks.items() if count}


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return _cell(sum(value.values()))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _reported(kept: Kept) -> Mapping[str, Mapping[str, Any]]:
    """Return the reports of runs that have ended, by the run's name."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in kept.names("runs"):
        told: Any = jsontext.loads(kept.get(name) or b"{}")
        key = ("appid", "crawlid", "spiderid", "run")
        found["\t".join(str(told.get(each)) for each in key)] = told
    return found


def _tell_rest(total: RecordTally) -> None:
    """Why records were not delivered, and what Kafka had deleted."""
    for word, reasons in (("filtered", total.filtered), ("undelivered", total.undelivered)):
        if reasons:
            print_line(f"{word}: {_by_reason(reasons)}")
    if total.lost:
        print_line(f"deleted by Kafka before they were read: {total.lost:,} offsets")
    if not total.is_closed:
        print_line(
            "The account does not close: read is not delivered + repeats + filtered + undelivered."
        )


def _by_reason(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
