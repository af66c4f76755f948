"""Records that a pipeline could not deliver, as JSON: rejected records with their pipeline."""

from __future__ import annotations

from typing import Any

from crawlstream.model.event import Undelivered
from crawlstream.wire import jsontext, rejects


def encode(undelivered: Undelivered) -> bytes:
    """Return it as UTF-8 JSON; ``raw`` is base64, or null if the record had no value."""
    whose: dict[str, Any] = {"pipeline": undelivered.pipeline, "edition": undelivered.edition}
    told = {"stage": undelivered.stage, "id": undelivered.id}
    whose |= {name: text for name, text in told.items() if text}
    return jsontext.dumps(whose | rejects.as_record(undelivered.rejection))


def decode(value: bytes) -> Undelivered:
    """Return the record; ``raw`` is None if it can no longer be delivered.

    Raise ValueError for other bytes.
    """
    record: Any = jsontext.loads(value)
    rejection = rejects.of_record(record)
    try:
        return Undelivered(
            str(record["pipeline"]),
            int(record["edition"]),
            rejection,
            stage=str(record.get("stage", "")),
            id=str(record.get("id", "")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an undelivered record: {value[:40]!r}") from error
