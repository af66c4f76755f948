"""Logs on standard error: JSON lines for programs, colours for people, one shape for all.

Events of crawlstream come from structlog. Warnings and errors of libraries (``logging``) are
written in the same way, so that one reader understands a whole file. Both contain text that clients
and sites have chosen, so control characters for terminals are escaped in both.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import ExcInfo, Processor

from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings
from crawlstream.stats.complaints import note_complaint


def configure(settings: Settings, process: str) -> None:
    """Set up the logs of this process; every line carries its name."""
    as_json = settings.log_json if settings.log_json is not None else not sys.stderr.isatty()
    level = logging.getLevelNamesMapping()[settings.log_level]
    shared = _shared(process)
    structlog.configure(
        processors=[*shared, *_renderers(as_json=as_json)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(as_json=as_json),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    # kafka-python logs every attempt to reach an unavailable broker; the bus logs once that it
    # waits.
    logging.getLogger("kafka.net").setLevel(logging.CRITICAL)
    handler.addFilter(_Seldom())
    logging.captureWarnings(capture=True)


def configure_for_command() -> None:
    """Set up the logs of a command that a person has typed: warnings only, as sentences.

    Messages of libraries are dropped: their threads log even after the last sentence of a command.
    """
    structlog.configure(
        processors=[_Sentences()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[logging.NullHandler()])
    logging.captureWarnings(capture=True)


class _Seldom(logging.Filter):
    """Lets a client of a service say the same thing once a minute, not with every attempt.

    A service that is away for a night would wash all else out of logs that are rotated by size.
    """

    _CLIENTS = ("kafka.", "kazoo.")
    _PAUSE_S = 60.0
    _MEANT = (
        "group_id is None",
        "Metadata refresh: failed Cancelled",
        "Metadata refresh: failed NetworkSelector closed!",
        "No partition metadata for topic",
    )
    """Complaints about what is normal: a reader without a group, requests of a client that is being
    closed, and a group whose leader has not read the partitions of a topic yet."""
    _KNOWN_LIMIT = 1000

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write this record."""
        if not record.name.startswith(self._CLIENTS):
            return True
        if record.getMessage().startswith(self._MEANT):
            return False
        if len(self._said_at) >= self._KNOWN_LIMIT:
            self._said_at.clear()
        what, now = (record.name, str(record.msg)), self._clock()
        if now - self._said_at.get(what, float("-inf")) < self._PAUSE_S:
            return False
        self._said_at[what] = now
        return True


class _Sentences:
    """Render warnings as sentences for a person; repetitions in a row are written once."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, _logger: object, _method: str, event: Any) -> str:
        failure = sys.exc_info()[1] if event.pop("exc_info", None) else None
        name = event.pop("event")
        said = event.pop("error", failure or name)
        more = ", ".join(map(str, event.values()))
        sentence = f"crawlstream: {said}" + (f" ({more})" if more else "")
        if sentence == self._last:
            raise structlog.DropEvent
        self._last = sentence
        return printable(sentence)


def _shared(process: str) -> Sequence[Processor]:
    """Return the processors that every event passes before it is written."""

    def name_process(_logger: object, _method: str, event: Any) -> Any:
        event.setdefault("process", process)
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        note_complaint,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_process,
    ]


def _renderers(*, as_json: bool) -> Sequence[Processor]:
    if not as_json:
        return [_shown, structlog.dev.ConsoleRenderer(exception_formatter=_write_traceback)]
    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_to_json),
    ]


def _shown(_logger: object, _method: str, event: Any) -> Any:
    """Escape line feeds in everything that is rendered for people; colours are added later."""
    return {_on_one_line(name): _on_one_line(value) for name, value in event.items()}


def _on_one_line(value: Any) -> Any:
    """Escape line feeds, so that a line of a client's text does not pass for a log line."""
    return printable(value).replace("\n", "\\n") if isinstance(value, str) else value


def _write_traceback(stream: TextIO, failure: ExcInfo) -> None:
    """Without the values of variables: passwords and cookies are among them."""
    stream.write("\n" + printable("".join(traceback.format_exception(*failure))))


def _to_json(event: object, **_ignored: object) -> str:
    """Write any event: what JSON does not know is shown as Python shows it."""
    try:
        text = orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
        return printable(text)
    except TypeError:
        # Lone surrogates, which only the slower encoder can escape.
        return json.dumps(event, default=repr, skipkeys=True)
