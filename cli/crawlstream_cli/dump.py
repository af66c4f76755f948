"""``crawlstream dump`` and ``kafkadump``: what is on a topic, record by record."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any

import typer

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.local_note import load_process_settings
from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import NotReached
from crawlstream.bus.records import Record
from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import list_topics
from crawlstream.errors import CrawlstreamError
from crawlstream.wire import jsontext
from crawlstream.wire.results import BODIES
from crawlstream_cli.common.cluster_requests import kafka_is_silent
from crawlstream_cli.common.console import print_line


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a record is shown."""

    envelope: bool = False
    """With topic, partition, offset, timestamp and key around it."""
    pretty: bool = False
    body: bool = True
    only_body: bool = False
    decode: bool = False
    """Show base64 bodies decoded."""


def dump(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC",
            help="incoming, crawled, outbound, events, rejected, or the full name of a topic.",
        ),
    ],
    *,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-b", help="Start with the oldest record.")
    ] = False,
    follow: Annotated[
        bool, typer.Option(help="Wait for new records instead of exiting after the last one.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Exit after this many records.")
    ] = None,
    body: Annotated[bool, typer.Option(help="Include the page bodies.")] = True,
    pretty: Annotated[bool, typer.Option("--pretty", "-p", help="Indent the JSON.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with partition, offset, timestamp and key.")
    ] = False,
) -> None:
    """Show the records of a topic, one per line, until Ctrl-C.

    Example: crawlstream dump crawled --from-beginning --no-body --pretty
    """
    settings = load_process_settings()
    view = View(envelope=as_json, pretty=pretty, body=body)
    name = full_name(settings, topic)
    records = read_topic(
        kafka_of(settings), name, from_beginning=from_beginning or not follow, follow=follow
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_dump(settings, name, records, view=view, limit=limit))


def full_name(settings: Settings, topic: str) -> str:
    """The name of a topic by its short one."""
    topics = settings.topics
    names = {
        "incoming": topics.incoming,
        "crawled": topics.crawled,
        "outbound": topics.outbound,
        "events": topics.events,
        "rejected": topics.rejected,
    }
    return names.get(topic, topic)


async def _dump(
    settings: Settings,
    topic: str,
    records: AsyncIterator[Record],
    *,
    view: View,
    limit: int | None,
) -> int:
    """Write records to stdout; return how many."""
    if topic not in await _topics(settings):
        raise CrawlstreamError(f"topic {topic} does not exist: `kafkadump list` lists the topics")
    numbers = count(1) if limit is None else range(1, limit + 1)
    shown = 0
    for shown in numbers:
        record = await anext(records, None)
        if record is None:
            return shown - 1
        print_line(render(record, view))
        sys.stdout.flush()
    return shown


async def _topics(settings: Settings) -> list[str]:
    try:
        async with asyncio.timeout(settings.kafka_feed_timeout):
            return list(await list_topics(kafka_of(settings)))
    except (TimeoutError, NotReached) as error:
        raise kafka_is_silent(settings) from error


def render(record: Record, view: View) -> str:
    """Return a record as text; a value that is not JSON is shown in Python's notation."""
    try:
        value = jsontext.loads(record.value or b"null")
    except ValueError:
        value = repr(record.value)
    value = _viewed(value, view)
    if isinstance(value, str) and view.only_body:
        return value
    if view.envelope:
        value = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": record.key.decode("utf-8", "backslashreplace") if record.key else None,
            "value": value,
        }
    return jsontext.dumps(value, indent=view.pretty).decode()


def _viewed(value: object, view: View) -> object:
    if not isinstance(value, dict) or "body" not in value:
        return "" if view.only_body else value
    if not view.body:
        return {name: field for name, field in value.items() if name not in BODIES}
    body = value["body"]
    if view.decode and value.get("body_encoding", "base64") == "base64":
        with contextlib.suppress(ValueError, TypeError):
            body = base64.b64decode(body, validate=True).decode("utf-8", "backslashreplace")
    return body if view.only_body else {**value, "body": body}


def kafkadump() -> int:
    """The predecessor's command of this name, with its options."""
    options = _kafkadump_options()
    hosts = {"kafka_hosts": options.kafka_host} if options.kafka_host else {}
    try:
        settings = load_process_settings(**hosts)
        asyncio.run(_COMMANDS[options.command](settings, options))
    except KeyboardInterrupt:
        return 0
    except CrawlstreamError as error:
        sys.stderr.write(f"kafkadump: {printable(str(error))}\n")
        return 1
    return 0


async def _list(settings: Settings, _: argparse.Namespace) -> None:
    for topic in await _topics(settings):
        print_line(topic)


async def _dump_as_before(settings: Settings, options: argparse.Namespace) -> None:
    view = View(
        pretty=options.pretty,
        body=not options.no_body,
        only_body=options.just_body,
        decode=options.decode_base64,
    )
    records = read_topic(kafka_of(settings), options.topic, from_beginning=options.from_beginning)
    await _dump(settings, options.topic, records, view=view, limit=None)


_COMMANDS: dict[str, Callable[[Settings, argparse.Namespace], Any]] = {
    "list": _list,
    "dump": _dump_as_before,
}


def _kafkadump_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kafkadump", description="Show Kafka topics and their records."
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-kh", "--kafka-host", help="host:port, instead of KAFKA_HOSTS")
    common.add_argument("-s", "--settings", help="accepted for compatibility; has no effect")
    common.add_argument("-ll", "--log-level", help="accepted for compatibility; has no effect")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", parents=[common], help="list all topics")
    dumper = commands.add_parser("dump", parents=[common], help="show a topic's records")
    dumper.add_argument("-t", "--topic", required=True)
    dumper.add_argument(
        "-c",
        "--consumer",
        help="accepted for compatibility; has no effect (reads without a consumer group)",
    )
    dumper.add_argument("-b", "--from-beginning", action="store_true")
    dumper.add_argument("-nb", "--no-body", action="store_true", help="omit the bodies")
    dumper.add_argument("-jb", "--just-body", action="store_true", help="show only the bodies")
    dumper.add_argument("-p", "--pretty", action="store_true", help="indent the JSON")
    dumper.add_argument("-d", "--decode-base64", action="store_true", help="decode the bodies")
    return parser.parse_args()
