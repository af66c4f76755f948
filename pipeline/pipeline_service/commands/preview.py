"""``preview``: the latest records as a pipeline would write them; nothing is written."""

from __future__ import annotations

import argparse
from collections import deque
from contextlib import aclosing

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.records import Batch, Record
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.formats.columns import COLUMNS, Kind
from crawlstream.model.delivered import Delivered
from pipeline_service.commands.printing import say, say_json
from pipeline_service.config import FilesSink, Pipeline
from pipeline_service.judging import judge
from pipeline_service.process import load_pipelines
from pipeline_service.segments import folder_of


async def preview(settings: Settings, options: argparse.Namespace) -> int:
    """Print what becomes of the latest records."""
    (pipeline,) = load_pipelines(settings, [options.name])
    kafka, topic = kafka_of(settings), pipeline.topic(settings.topics)
    ends = await end_offsets(kafka, topic)
    begin = {number: max(end - options.count, 0) for number, end in ends.items()}
    newest: deque[Record] = deque(maxlen=max(options.count, 1) * len(ends))
    async with aclosing(read_topic(kafka, topic, offsets=begin, follow=False)) as reading:
        async for record in reading:
            newest.append(record)
    records = sorted(newest, key=lambda each: each.timestamp_ms)[-max(options.count, 0) :]
    for record in records:
        batch = Batch("", record.partition, record.offset, record.offset + 1, [record])
        (judged,) = judge(pipeline, batch)
        place = f"{record.partition}-{record.offset}"
        if judged.page is None:
            outcome = (
                f"filtered: {judged.filtered}" if judged.filtered else "; ".join(judged.errors)
            )
            say(f"{place}: {outcome}")
        else:
            say_json({"record": place, **_folder(pipeline, judged.page), **_row(judged.page)})
    if not records:
        say(f"{topic} has no records")
    return 0


def _folder(pipeline: Pipeline, page: Delivered) -> dict[str, object]:
    """Where a page's file would be, if it came into one."""
    if not isinstance(pipeline.sink, FilesSink):
        return {}
    return {"folder": folder_of(page, pipeline.sink.partition_by)}


def _row(page: Delivered) -> dict[str, object]:
    """A page's columns; of its body and its lists the beginning."""
    row = {column.name: column.take(page) for column in COLUMNS}
    row |= {column.name: str(row[column.name])[:80] for column in COLUMNS if column.kind in _LONG}
    return {name: value for name, value in row.items() if value is not None}


_LONG = {Kind.BYTES, Kind.HEADERS, Kind.LINKS, Kind.TIME}
