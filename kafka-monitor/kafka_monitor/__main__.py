"""The command ``kafka-monitor``: ``run`` moves requests, ``feed`` sends one."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.options import EXIT_CONFIG, common_options, settings_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.factory import make_sink
from crawlstream.bus.records import Out
from crawlstream.errors import ConfigError, InvalidRequest, KafkaUnavailable
from crawlstream.model.request import RequestLimits
from crawlstream.wire import requests
from crawlstream.wire.strict import parse_object
from kafka_monitor.process import run

EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says how it went."""
    options = _parser().parse_args(arguments)
    try:
        settings = settings_of(options)
        if options.command == "run":
            asyncio.run(run(settings))
            return 0
        return asyncio.run(feed(settings, options.json))
    except ConfigError as error:
        sys.stderr.write(f"kafka-monitor: {error}\n")
        return EXIT_CONFIG


async def feed(settings: Settings, text: str) -> int:
    """Send one record unchanged; 0 when Kafka has it.

    Topics report whether it is a valid request.
    """
    try:
        raw = text.encode("utf-8", "surrogateescape")
        parse_object(raw, RequestLimits())
    except InvalidRequest as error:
        sys.stderr.write(f"kafka-monitor feed: {error}\n")
        return EXIT_FAILED
    topics = settings.topics
    sink = make_sink(kafka_of(settings, "kafka-feed"))
    try:
        async with asyncio.timeout(settings.kafka_feed_timeout):
            await sink.start()
        await sink.send([Out(topics.incoming, raw, requests.key_of(raw))])
    except (KafkaUnavailable, TimeoutError) as error:
        sys.stderr.write(f"kafka-monitor feed: Kafka did not accept the request: {error}\n")
        return EXIT_FAILED
    finally:
        await sink.stop()
    sys.stdout.write(f"fed to {topics.incoming}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-monitor", description="Move requests from Kafka to the frontier."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = [common_options()]
    commands.add_parser("run", parents=common, help="run until stopped")
    feeding = commands.add_parser("feed", parents=common, help="send one request")
    feeding.add_argument("json", help="the request, as a JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
