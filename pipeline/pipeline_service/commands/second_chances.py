"""``undelivered list | show | replay``: records that could not be delivered, and a second chance.

A record that is replayed becomes a file of its own, ``replayed-…``, whose name follows from the id
of its page: to replay it twice writes the same file. The account stays as it was.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.records import Batch, Record
from crawlstream.bus.tail import read_topic
from crawlstream.errors import ConfigError
from crawlstream.formats.columns import COLUMNS
from crawlstream.formats.memory import in_memory
from crawlstream.model.event import Undelivered
from crawlstream.wire import undelivered as wire
from pipeline_service.commands.printing import say, say_json, say_table
from pipeline_service.config import Pipeline
from pipeline_service.judging import judge
from pipeline_service.process import (
    close_stages,
    crawl_of,
    load_pipelines,
    open_stages,
    open_store,
)
from pipeline_service.repeats import short
from pipeline_service.segments import folder_of, written
from pipeline_service.staging import Staging


async def undelivered(settings: Settings, options: argparse.Namespace) -> int:
    """Print or replay; 1 if a record that is named is not there, or cannot be replayed."""
    (pipeline,) = load_pipelines(settings, [options.name])
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
    """Those of a pipeline's edition, each once, as they stand on the topic."""
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
    """What people call it: its place in the source."""
    return f"{one.rejection.partition}-{one.rejection.offset}"


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
            say_json({"id": _id(each), **reasons, "timestamp": told.timestamp_ms})
    elif found:
        rows = [[_id(o), o.rejection.reason, "; ".join(o.rejection.errors)] for o in found]
        say_table(("id", "reason", "errors"), rows)
    else:
        say("Nothing is undelivered.")


def _show(one: Undelivered) -> None:
    say(f"{_id(one)}: {one.rejection.reason}: {'; '.join(one.rejection.errors)}")
    raw = one.rejection.raw
    say("(no value)" if raw is None else raw.decode("utf-8", "backslashreplace"))


async def _replay(settings: Settings, pipeline: Pipeline, chosen: Sequence[Undelivered]) -> int:
    stagings, failed = await open_stages([pipeline]), 0
    try:
        for each in chosen:
            failed += not await _replay_one(settings, pipeline, each, stagings[pipeline.name])
    finally:
        await close_stages(stagings)
    return 1 if failed else 0


async def _replay_one(
    settings: Settings, pipeline: Pipeline, each: Undelivered, staging: Staging
) -> bool:
    """Whether it is stored, or not wanted; says which."""
    record = _record_of(each)
    batch = Batch("", record.partition, record.offset, record.offset + 1, [record])
    (judged,) = judge(pipeline, batch)
    judged = await staging.run_one(judged)
    if judged.page is None:
        say(f"{_id(each)}: {'; '.join(judged.errors) or f'filtered: {judged.filtered}'}")
        return not judged.reason
    store, which = open_store(pipeline), pipeline.sink.format
    folder = folder_of(judged.page, pipeline.sink.partition_by)
    name = f"{folder}replayed-{short(judged.id).hex()}.{which}"
    columns = COLUMNS if staging.shape is None else staging.shape.columns
    rows = written(judged, staging.shape, which)
    content = in_memory(which, crawl_of(settings), rows, columns=columns)
    await asyncio.to_thread(store.put, name, content)
    say(f"{_id(each)}: {store.url(name)}")
    return True


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
