"""Notices as JSON, for the body of a webhook."""

from __future__ import annotations

from crawlstream.model.notice import Notice
from crawlstream.wire import events, jsontext


def encode(notice: Notice) -> bytes:
    """Return a notice as UTF-8 JSON; ``crawl`` or ``record`` is its event as on the topic."""
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
