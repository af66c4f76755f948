"""Records that a pipeline could not deliver, as JSON: rejected records with their pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crawlstream.model.event import Rejection
from crawlstream.wire import jsontext, rejects


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Record that a pipeline could not deliver, kept whole, with the cause."""

    pipeline: str
    edition: int
    rejection: Rejection
    """Reason, and the record with its place in the source."""
    stage: str = ""
    """Stage that refused it; empty: it did not reach a stage."""
    id: str = ""
    """Id of the page, if it could be read."""

    @property
    def name(self) -> str:
        """Return its key on the topic, which is the same when it is published again."""
        place = self.rejection
        where = f"{place.topic}-{place.partition}-{place.offset}"
        return f"{self.pipeline}:{self.edition}:{where}"


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
