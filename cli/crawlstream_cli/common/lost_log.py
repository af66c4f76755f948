"""``crawlstream recover --partition``: a log of ``incoming`` that lost its end, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson

from crawlstream.boot.clients import kafka_of, redis_client
from crawlstream.boot.settings import Settings
from crawlstream.bus.history import (
    PartitionOffsets,
    commit_again,
    epoch_ends,
    partition_offsets,
    topic_id_of,
)
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream_cli.common.cluster_requests import ends_of
from crawlstream_cli.common.console import print_line
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.positions import Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """A partition of ``incoming`` in Kafka, and how far it has taken effect."""

    topic_id: str
    partition: int
    position: int
    oldest: int
    end: int
    """Offset behind its last record."""
    loss: int | None
    """Offset of the first record that took effect and is gone; None: none is known to be."""

    def sentence(self) -> str:
        """Return the state of the partition in a sentence."""
        holds = (
            f"partition {self.partition} contains offsets {self.oldest} to {self.end}; records"
            f" before {self.position} have taken effect"
        )
        if self.loss is None:
            return f"{holds}, and no records are known to be lost"
        return (
            f"{holds}; those from {self.loss} on are lost, and the records now at these offsets"
            " are new: stop all kafka-monitors, then use --from loss"
        )

    def offset(self, begin: str) -> int:
        """Return the offset for ``--from``; CrawlstreamError if it is not in the partition."""
        named = {"begin": self.oldest, "end": self.end, "loss": self.loss}
        offset = named[begin] if begin in named else int(begin) if begin.isdecimal() else None
        if offset is None:
            raise CrawlstreamError(
                f"--from {begin} is not valid: use an offset, begin, end, or loss (only if a"
                " loss is known)"
            )
        if not self.oldest <= offset <= self.end:
            raise CrawlstreamError(
                f"the partition only contains offsets {self.oldest} to {self.end}"
            )
        return offset


async def recover_partition(
    settings: Settings, partition: int, begin: str, *, as_json: bool
) -> None:
    """Say what a partition is; with ``begin``, have it go on from there."""
    await ends_of(settings, settings.topics.incoming)
    async with redis_client(settings) as redis:
        positions = Frontier(redis, settings.keys).positions
        state = (await _look(settings, positions)).get(partition)
        if state is None:
            raise CrawlstreamError(
                "no record of this partition has taken effect, so no decision is needed"
            )
        if not begin:
            print_line(orjson.dumps(asdict(state)).decode() if as_json else state.sentence())
            return
        offset = state.offset(begin)
        await _go_on(settings, positions, state, offset)
    told = {"partition": partition, "was": state.position, "position": offset}
    sentence = f"partition {partition} continues at offset {offset} instead of {state.position}"
    print_line(orjson.dumps(told).decode() if as_json else sentence)


async def lost_logs(settings: Settings) -> Sequence[str]:
    """Return a sentence for each partition that waits for a person, or raise Unavailable."""
    async with redis_client(settings) as redis:
        states = await _look(settings, Frontier(redis, settings.keys).positions)
    return [
        f"partition {partition} of {settings.topics.incoming} is paused: Kafka has lost records"
        f" {state.loss} to {state.position}, which had taken effect; to continue: {COMMAND}"
        f" recover --partition {partition}"
        for partition, state in sorted(states.items())
        if state.loss is not None
    ]


async def _look(settings: Settings, positions: Positions) -> Mapping[int, LogState]:
    """Return the partitions that have taken effect.

    Reads positions first: records that take effect after that are in Kafka when it is queried.
    """
    topic, kafka = settings.topics.incoming, kafka_of(settings)
    topic_id = await topic_id_of(kafka, topic)
    known = {
        p: position for (one, p), position in (await positions.known()).items() if one == topic_id
    }
    epochs = {p: e for p in known if (e := await positions.leader_epoch(topic_id, p)) is not None}
    found = await partition_offsets(kafka, topic, group=settings.kafka_group) if known else {}
    ends = await epoch_ends(kafka, topic, {p: e for p, e in epochs.items() if p in found})
    return {
        partition: LogState(
            topic_id=topic_id,
            partition=partition,
            position=position,
            oldest=found[partition].oldest,
            end=found[partition].end,
            loss=_loss(position, found[partition], ends.get(partition)),
        )
        for partition, position in known.items()
        if partition in found
    }


def _loss(position: int, found: PartitionOffsets, epoch_end: int | None) -> int | None:
    lost_from = found.end if epoch_end is None else min(found.end, epoch_end)
    return max(lost_from, found.oldest) if lost_from < position else None


async def _go_on(settings: Settings, positions: Positions, state: LogState, offset: int) -> None:
    """Kafka's hint first: what dies in between leaves the partition as it was, and waiting."""
    topic, group = settings.topics.incoming, settings.kafka_group
    await commit_again(kafka_of(settings), topic, state.partition, group=group, offset=offset)
    if not await positions.reposition(
        state.topic_id, state.partition, shown=state.position, offset=offset
    ):
        raise CrawlstreamError(
            "the position changed during this command: stop all kafka-monitors and retry"
        )
