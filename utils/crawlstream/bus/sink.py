"""Records out: lists of them, each acknowledged as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.bus.records import Out
from crawlstream.bus.topics import TopicShape


class KafkaSink:
    """Writes lists of records and tells when Kafka has all of them (acks=all, idempotent)."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        client_id: str = "crawlstream",
        shape: TopicShape | None = None,
        delivery_timeout_s: float = 15.0,
    ) -> None:
        """``shape`` is given to optional topics when they are created."""
        raise NotImplementedError

    async def start(self) -> None:
        """Wait, however long, until Kafka answers; may be cancelled."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Let what is under way come to its end, within bounds, and end the threads."""
        raise NotImplementedError

    async def send(self, records: Sequence[Out]) -> None:
        """Return when Kafka has acknowledged all ``records``; wait for room before.

        KafkaUnavailable (as NotAcknowledged): not all of them were acknowledged in time; repeat.
        RecordTooLarge: the rest was acknowledged, but these records never will be.
        """
        raise NotImplementedError
