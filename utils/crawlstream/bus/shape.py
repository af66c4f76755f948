"""How topics are created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENVELOPE_BYTES = 64 * 1024
"""Maximum size that key, headers and batch add to a record of the largest size."""

INCOMING_RETENTION_MS = 14 * 24 * 3600 * 1000
"""The longest crawl whose seeds can be read again after a loss of Redis: two weeks."""

UNPACKED = "max.decompressed.message.bytes"
"""Maximum size of a record once it is unpacked; brokers before 4.4 do not know this setting."""

FEW_REPLICAS = 2
"""With this many replicas, one missing replica would stop all writing if both had to
acknowledge."""

_KEPT_SEGMENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """How a topic is created; one that exists is left as it is."""

    partitions: int = 4
    replication: int = 1
    max_record_bytes: int = 8 * 1024 * 1024
    most: int = 1_000
    """Maximum number of topics under one prefix; above it, applications get no topics of their
    own."""

    def options(
        self,
        *,
        is_incoming: bool = False,
        is_compacted: bool = False,
        is_table: bool = False,
        is_kept: bool = False,
        is_undelivered: bool = False,
    ) -> Mapping[str, Any]:
        """The shape as kafka-python takes it."""
        largest = str(self.max_record_bytes + ENVELOPE_BYTES)
        configs = {"max.message.bytes": largest, UNPACKED: largest}
        if is_incoming:
            # The broker's clock, not the clients', decides if a seed came before a stop.
            configs["message.timestamp.type"] = "LogAppendTime"
        if is_incoming or is_undelivered:
            configs["retention.ms"] = str(INCOMING_RETENTION_MS)
        if is_compacted:
            # A run is of no use any more when its seeds are gone.
            configs["cleanup.policy"] = "compact,delete"
            configs["retention.ms"] = str(2 * INCOMING_RETENTION_MS)
        if is_table:
            configs["cleanup.policy"] = "compact"
            # The last segment is not compacted, and is read with every read of the table.
            configs["segment.bytes"] = str(2 * self.max_record_bytes)
        if is_kept:
            # The reader deletes records after reading, segment by segment; nothing else may.
            configs["retention.ms"] = configs["retention.bytes"] = "-1"
            configs["segment.bytes"] = str(max(_KEPT_SEGMENT_BYTES, 2 * self.max_record_bytes))
        if self.replication > FEW_REPLICAS:
            # Records that all in-sync replicas acknowledge must survive the loss of one of them.
            configs["min.insync.replicas"] = str(self.replication - 1)
        return {
            "num_partitions": self.partitions,
            "replication_factor": self.replication,
            "configs": configs,
        }
