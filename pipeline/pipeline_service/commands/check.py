"""``check``: whether pipelines can run, before they do."""

from __future__ import annotations

import argparse
import asyncio

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.options import EXIT_CONFIG
from crawlstream.boot.settings import Settings
from crawlstream.bus.tail import end_offsets
from crawlstream.errors import ConfigError, KafkaUnavailable, Unavailable
from pipeline_service.commands.printing import EXIT_FAILED, complain, print_line
from pipeline_service.process import load_pipelines
from pipeline_service.records.rows import Shape
from pipeline_service.sink_factory import place_of, prove
from pipeline_service.spec.config import Pipeline
from pipeline_service.staging import opened


async def check(settings: Settings, options: argparse.Namespace) -> int:
    """Read the file, load the stages, prove the stores, look for the sources. ConfigError.

    All are looked at, whatever one of them lacks; the exit code says the worst.
    """
    pipelines = load_pipelines(settings, options.names)
    async with opened(pipelines) as stagings:
        shapes = {name: staging.shape for name, staging in stagings.items()}
    found = [await _status(settings, each, shapes[each.name]) for each in pipelines]
    return max(found, default=0)


async def _status(settings: Settings, pipeline: Pipeline, shape: Shape | None) -> int:
    """Say of one pipeline what there is; EXIT_CONFIG, or EXIT_FAILED: its store is away."""
    try:
        await asyncio.to_thread(prove, settings, pipeline, shape)
    except ConfigError as error:
        complain(str(error))
        return EXIT_CONFIG
    except Unavailable as error:
        complain(f"pipeline.{pipeline.name}: {error}")
        return EXIT_FAILED
    print_line(f"{pipeline.name}: {place_of(pipeline)}")
    if pipeline.stage:
        print_line(f"  stages, run by {_runners(pipeline)}: {_labels(pipeline)}")
    topic = pipeline.topic(settings.topics)
    try:
        partitions = len(await end_offsets(kafka_of(settings), topic))
    except KafkaUnavailable as error:
        print_line(f"  reads {topic}, which cannot be read now: {error}")
    else:
        print_line(f"  reads {topic}, {partitions} partitions")
    return 0


def _labels(pipeline: Pipeline) -> str:
    return ", ".join(spec.label for spec in pipeline.stage)


def _runners(pipeline: Pipeline) -> str:
    workers = pipeline.worker_count
    return f"{workers} worker process{'es' if workers > 1 else ''}" if workers else "a thread"
