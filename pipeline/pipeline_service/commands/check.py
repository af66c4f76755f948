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
from pipeline_service.process import load_pipelines
from pipeline_service.sinks.make import place_of, prove
from pipeline_service.staging import opened


async def check(settings: Settings, options: argparse.Namespace) -> int:
    """Read the file, load the stages, prove the stores, look for the sources.

    ConfigError, Unavailable.
    """
    pipelines = load_pipelines(settings, options.names)
    async with opened(pipelines) as stagings:
        shapes = {name: staging.shape for name, staging in stagings.items()}
    for pipeline in pipelines:
        await asyncio.to_thread(prove, settings, pipeline, shapes[pipeline.name])
        say(f"{pipeline.name}: {place_of(pipeline)}")
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
