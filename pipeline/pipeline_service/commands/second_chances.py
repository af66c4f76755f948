"""``undelivered list | show | replay``: records that could not be delivered, and a second chance.

Among files, a record that is replayed becomes one of its own, ``replayed-…``, whose name follows
from the id of its page; in a store of rows it becomes rows with their keys. So it may be replayed
twice. The account stays as it was. A change that a webhook has not taken waits for it once more.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing, closing
from io import BytesIO
from pathlib import Path

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.records import Batch, Record
from crawlstream.bus.tail import read_topic
from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import Change, RowsRefused
from crawlstream.wire import jsontext
from pipeline_service.commands.printing import print_json, print_line, print_table
from pipeline_service.formats.cdxj import CdxjIndex
from pipeline_service.formats.columns import COLUMNS
from pipeline_service.formats.files import make_writer
from pipeline_service.memory.page_changes import event_in
from pipeline_service.process import load_pipeline
from pipeline_service.records import undelivered_records as wire
from pipeline_service.records.judging import Undeliverable, Wanted, judge
from pipeline_service.records.undelivered import WEBHOOK
from pipeline_service.records.undelivered_records import Undelivered
from pipeline_service.sink_factory import (
    bodies_of,
    crawl_of,
    make_maker,
    open_rows,
    open_store,
    open_webhook,
    place_of,
)
from pipeline_service.sinks.files.repeats import short
from pipeline_service.sinks.files.segments import folder_of, index_name, written
from pipeline_service.sinks.lake.opening import replay
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.spec.lake import LakeSpec
from pipeline_service.spec.memory import PagesSink
from pipeline_service.staging import Staging, opened


async def undelivered(settings: Settings, options: argparse.Namespace) -> int:
    """Print or replay; 1 if a record that is named is not there, or cannot be replayed."""
    pipeline = load_pipeline(settings, options.name)
    found = await _find(settings, pipeline)
    if options.verb == "list":
        _list(
            [each for each in found if options.reason in (None, each.rejection.reason)],
            as_json=options.json,
        )
        return 0
    chosen = _chosen(found, options)
    if options.verb == "show":
        for each in chosen:
            _show(each)
        return 0
    return await _replay(settings, pipeline, chosen)


async def _find(settings: Settings, pipeline: Pipeline) -> Sequence[Undelivered]:
    """Return the entries of a pipeline's edition, each once, as they stand on the topic."""
    kafka, topic = kafka_of(settings), settings.topics.undelivered
    found: dict[str, Undelivered] = {}
    reading = read_topic(kafka, topic, from_beginning=True, follow=False)
    async with aclosing(reading) as records:
        async for record in records:
            try:
                one = wire.decode(record.value or b"")
            except ValueError:
                continue
            if (one.pipeline, one.edition) == (pipeline.name, pipeline.edition):
                found[_id(one)] = one
    return list(found.values())


def _id(one: Undelivered) -> str:
    """Return the name of an entry for people: its place in the source."""
    return f"{one.rejection.partition}-{one.rejection.offset}"


def _url(one: Undelivered) -> str:
    """Return the URL of its page; "" if the record has none that can be read."""
    try:
        record = jsontext.loads(one.rejection.raw or b"")
    except ValueError:
        return ""
    return str(record.get("url") or "") if isinstance(record, dict) else ""


def _chosen(found: Sequence[Undelivered], options: argparse.Namespace) -> Sequence[Undelivered]:
    if options.all or options.reason:
        return [each for each in found if options.reason in (None, each.rejection.reason)]
    if not options.ids:
        raise ConfigError("expected ids of records (see `undelivered list`), --reason or --all")
    known = {_id(each): each for each in found}
    for name in options.ids:
        if name not in known:
            raise ConfigError(f"no undelivered record {name!r}: see `undelivered list`")
    return [known[name] for name in options.ids]


def _list(found: Sequence[Undelivered], *, as_json: bool) -> None:
    if as_json:
        for each in found:
            told = each.rejection
            reasons = {"reason": told.reason, "errors": list(told.errors)}
            named = {"id": _id(each), "url": _url(each) or None}
            print_json({**named, **reasons, "timestamp": told.timestamp_ms})
    elif found:
        rows = [[_id(o), _url(o), o.rejection.reason, "; ".join(o.rejection.errors)] for o in found]
        print_table(("id", "url", "reason", "errors"), rows)
    else:
        print_line("Nothing is undelivered.")


def _show(one: Undelivered) -> None:
    print_line(f"{_id(one)}: {one.rejection.reason}: {'; '.join(one.rejection.errors)}")
    raw = one.rejection.raw
    print_line("(no value)" if raw is None else raw.decode("utf-8", "backslashreplace"))


async def _replay(settings: Settings, pipeline: Pipeline, chosen: Sequence[Undelivered]) -> int:
    failed = 0
    async with opened([pipeline]) as stagings:
        for each in chosen:
            failed += not await _replay_one(settings, each, stagings[pipeline.name])
    return 1 if failed else 0


async def _replay_one(settings: Settings, each: Undelivered, staging: Staging) -> bool:
    """Return whether it is stored, or not wanted; says which."""
    if each.rejection.reason == WEBHOOK:
        is_waiting, outcome = await asyncio.to_thread(_send_again, each, staging.pipeline)
        print_line(f"{_id(each)}: {outcome}")
        return is_waiting
    record = _record_of(each)
    batch = Batch("", record.partition, record.offset, record.offset + 1, [record])
    (judged,) = judge(staging.pipeline, batch)
    judged = await staging.run_one(judged)
    if isinstance(judged, Undeliverable):
        print_line(f"{_id(each)}: {'; '.join(judged.errors)}")
        return False
    if not isinstance(judged, Wanted):
        print_line(f"{_id(each)}: {judged.outcome}: {judged.reason}")
        return True
    try:
        place = await asyncio.to_thread(_write, settings, judged, staging)
    except RowsRefused as refused:
        print_line(f"{_id(each)}: {refused}")
        return False
    print_line(f"{_id(each)}: {place}")
    return True


def _send_again(each: Undelivered, pipeline: Pipeline) -> tuple[bool, str]:
    """Have a change wait for the webhook again; return whether it does, and a sentence about it."""
    sink, raw = pipeline.sink, each.rejection.raw
    if not (isinstance(sink, PagesSink) and sink.changes and sink.changes.webhook):
        return False, "the pipeline has no webhook any more: `show` prints the change"
    if raw is None:
        return False, "the change was too large for the topic: see the topic of events"
    try:
        event = event_in(raw)
    except ValueError as error:
        return False, str(error)
    with closing(open_webhook(pipeline, sink)) as store:
        if not store.add(event):
            return False, "too many changes wait for the webhook: replay this one later"
    return True, "waits for the webhook, to which a process of the pipeline sends it"


def _record_of(each: Undelivered) -> Record:
    told = each.rejection
    return Record(
        told.topic or "",
        told.partition or 0,
        told.offset or 0,
        told.timestamp_ms or 0,
        key=None,
        value=told.raw,
    )


def _write(settings: Settings, judged: Wanted, staging: Staging) -> str:
    """Write one page; says where it is. Unavailable, RowsRefused."""
    pipeline = staging.pipeline
    if isinstance(pipeline.sink, LakeSpec):
        replay(pipeline, judged, staging.shape, bodies_of(settings, pipeline.sink.body))
        return place_of(pipeline)
    if not isinstance(pipeline.sink, FilesSpec):
        _write_rows(settings, judged, staging)
        return place_of(pipeline)
    return _write_file(settings, judged, staging, pipeline.sink)


def _write_file(settings: Settings, judged: Wanted, staging: Staging, sink: FilesSpec) -> str:
    store, which = open_store(staging.pipeline), sink.format
    folder = folder_of(judged.page, sink.partition_by)
    name = f"{folder}replayed-{short(judged.id).hex()}.{which}"
    columns = COLUMNS if staging.shape is None else staging.shape.columns
    file, lines, index = BytesIO(), BytesIO(), CdxjIndex(Path(name))
    options = {"index": index, "name": name} if which == "warc.gz" else {}
    writer = make_writer(which, file, crawl_of(settings), columns, **options)
    for value, row in written(judged, staging.shape, which):
        writer.write(value, row)
    writer.close()
    store.put(name, file.getvalue())
    if options:
        index.write(lines)
        store.put(index_name(name), lines.getvalue())
    return store.url(name)


def _write_rows(settings: Settings, judged: Wanted, staging: Staging) -> None:
    maker = make_maker(settings, staging.pipeline, staging.shape)
    store = open_rows(settings, staging.pipeline, maker)
    note = f"replayed/{judged.id}"
    try:
        store.open()
        before = store.read(note).get(note)
        if before is not None and not store.knows_keys:
            return
        told = jsontext.dumps({"at_ms": time.time_ns() // 1_000_000}).decode()
        store.write(Change(note, before, maker.rows([judged]), lambda _: {note: told}))
    finally:
        store.close()
