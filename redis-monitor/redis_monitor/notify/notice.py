"""Notices to people: a crawl that ended, data that is not as expected, a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlstream.model.event import CrawlEvent
from crawlstream.wire import events, jsontext


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Notice to send; it may be sent twice, with the same ``id``."""

    id: str
    event: str
    """``crawl_finished``, ``crawl_stopped``, ``crawl_expired``, ``problem_began``,
    ``problem_ended``, ``quality_missed``, ``run_undelivered``, ``schedule_skipped``."""
    at: int
    """Epoch seconds."""
    cluster: str
    """Prefix of its topics."""
    text: str
    """Text for people: one sentence."""
    ending: CrawlEvent | None = None
    record: Mapping[str, Any] | None = None
    """Other event that it is about, as on the topic."""
    problem: str = ""
    """Code of the problem."""


def encode_notice(notice: Notice) -> bytes:
    """Return the JSON body of a webhook; ``crawl`` or ``record`` is its event as on the topic."""
    told: dict[str, object] = {
        "id": notice.id,
        "event": notice.event,
        "at": notice.at,
        "cluster": notice.cluster,
        "text": notice.text,
    }
    if notice.ending is not None:
        told["crawl"] = jsontext.loads(events.encode(notice.ending))
    if notice.record is not None:
        told["record"] = dict(notice.record)
    if notice.problem:
        told["problem"] = notice.problem
    return jsontext.dumps(told)
