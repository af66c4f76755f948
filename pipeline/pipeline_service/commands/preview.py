"""``preview``: the latest records as a pipeline would write them; nothing is written."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.records import Batch, Record
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.model.delivered import Delivered
from pipeline_service.commands.printing import print_json, print_line
from pipeline_service.formats.columns import COLUMNS, Column, ColumnType
from pipeline_service.process import load_pipeline
from pipeline_service.records.judging import Undeliverable, Wanted, judge
from pipeline_service.records.rows import StoreRow
from pipeline_service.sinks.files.segments import folder_of
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.staging import Staging, opened


async def preview(settings: Settings, options: argparse.Namespace) -> int:
    """Print what becomes of the latest records."""
    pipeline = load_pipeline(settings, options.name)
    kafka, topic = kafka_of(settings), pipeline.topic(settings.topics)
    ends = await end_offsets(kafka, topic)
    begin = {number: max(end - options.count, 0) for number, end in ends.items()}
    newest: deque[Record] = deque(maxlen=max(options.count, 1) * len(ends))
    async with aclosing(read_topic(kafka, topic, offsets=begin, follow=False)) as reading:
        async for record in reading:
            newest.append(record)
    records = sorted(newest, key=lambda each: each.timestamp_ms)[-max(options.count, 0) :]
    async with opened([pipeline]) as stagings:
        for record in records:
            await _show(record, stagings[pipeline.name])
    if not records:
        print_line(f"{topic} has no records")
    return 0


async def _show(record: Record, staging: Staging) -> None:
    batch = Batch("", record.partition, record.offset, record.offset + 1, [record])
    (judged,) = judge(staging.pipeline, batch)
    judged = await staging.run_one(judged)
    place = f"{record.partition}-{record.offset}"
    if isinstance(judged, Undeliverable):
        print_line(f"{place}: {judged.reason}: {'; '.join(judged.errors)}")
        return
    if not isinstance(judged, Wanted):
        print_line(f"{place}: {judged.outcome}: {judged.reason}")
        return
    told = {"record": place, **_folder(staging.pipeline, judged.page)}
    for row in (None,) if judged.rows is None else judged.rows:
        if row is None:
            print_json({**told, **_row(judged.page, COLUMNS)})
        else:
            assert staging.shape is not None
            print_json({**told, **_row(row, staging.shape.columns)})


def _folder(pipeline: Pipeline, page: Delivered) -> dict[str, object]:
    """Return where a page's file would be, if it came into one."""
    if not isinstance(pipeline.sink, FilesSpec):
        return {}
    return {"folder": folder_of(page, pipeline.sink.partition_by)}


def _row(source: Delivered | StoreRow, columns: Sequence[Column]) -> dict[str, object]:
    """A row's columns; of its body and its lists the beginning."""
    row = {column.name: column.take(source) for column in columns}
    row |= {column.name: str(row[column.name])[:80] for column in columns if column.kind in _LONG}
    return {name: value for name, value in row.items() if value is not None}


_LONG = {ColumnType.BYTES, ColumnType.HEADERS, ColumnType.LINKS, ColumnType.TIME}
