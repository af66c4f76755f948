"""``check``: whether pipelines can run, before they do."""

from __future__ import annotations

import argparse
import asyncio

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.tail import end_offsets
from crawlstream.errors import KafkaUnavailable
from pipeline_service.commands.printing import say
from pipeline_service.process import load_pipelines
from pipeline_service.sinks.make import place_of, prove


async def check(settings: Settings, options: argparse.Namespace) -> int:
    """Read the file, prove the stores, look for the sources; ConfigError or Unavailable."""
    for pipeline in load_pipelines(settings, options.names):
        await asyncio.to_thread(prove, settings, pipeline)
        say(f"{pipeline.name}: {place_of(pipeline)}")
        topic = pipeline.topic(settings.topics)
        try:
            partitions = len(await end_offsets(kafka_of(settings), topic))
        except KafkaUnavailable as error:
            say(f"  reads {topic}, which cannot be read now: {error}")
        else:
            say(f"  reads {topic}, {partitions} partitions")
    return 0
