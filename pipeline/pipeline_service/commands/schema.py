"""``schema``: what Kafka Connect has to know of the records, for its JsonConverter."""

from __future__ import annotations

import argparse

from crawlstream.boot.settings import Settings
from pipeline_service.commands.kafka_connect import connect_schema
from pipeline_service.commands.printing import print_json


async def schema(_: Settings, options: argparse.Namespace) -> int:
    """Print it in one line."""
    print_json(connect_schema(only_flat=options.flat))
    return 0
