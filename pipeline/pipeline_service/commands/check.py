"""``check``: whether pipelines can run, before they do."""

from __future__ import annotations

import argparse
import asyncio

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.tail import end_offsets
from crawlstream.errors import KafkaUnavailable
from pipeline_service.commands.printing import say
from pipeline_service.config import Pipeline
from pipeline_service.process import (
    check_format,
    close_stages,
    load_pipelines,
    open_stages,
    open_store,
)


async def check(settings: Settings, options: argparse.Namespace) -> int:
    """Read the file, load the stages, prove the stores, look for the sources.

    ConfigError, Unavailable.
    """
    pipelines = load_pipelines(settings, options.names)
    await close_stages(await open_stages(pipelines))
    for pipeline in pipelines:
        check_format(pipeline)
        store = open_store(pipeline)
        await asyncio.to_thread(store.prove)
        say(f"{pipeline.name}: {pipeline.sink.format} to {store.url('')}")
        if pipeline.stage:
            say(f"  stages, run by {_runners(pipeline)}: {_labels(pipeline)}")
        topic = pipeline.topic(settings.topics)
        try:
            partitions = len(await end_offsets(kafka_of(settings), topic))
        except KafkaUnavailable as error:
            say(f"  reads {topic}, which cannot be read now: {error}")
        else:
            say(f"  reads {topic}, {partitions} partitions")
    return 0


def _labels(pipeline: Pipeline) -> str:
    return ", ".join(spec.label for spec in pipeline.stage)


def _runners(pipeline: Pipeline) -> str:
    workers = pipeline.worker_count
    return f"{workers} worker process{'es' if workers > 1 else ''}" if workers else "a thread"
