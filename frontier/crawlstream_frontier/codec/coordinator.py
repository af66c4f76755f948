"""Requests to the coordinator of crawls, and its answers that Kafka must store.

In the shapes of ``lua/operations/partitions``: enroll, overdue, lapse and recover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import Command, Effect, IntakeBatch, Seed
from crawlstream.model.partitions.messages import Begun, CoordinatorMark, Stamp, ToNote, Version
from crawlstream.model.recurring.schedule import Occasion
from crawlstream_frontier.codec.intake import (
    LATEST_S,
    Profiles,
    pack_budgets,
    pack_occasion,
    pack_other,
)
from crawlstream_frontier.codec.values import crawl_from, none_as, pack


def pack_enroll(batch: IntakeBatch, noted: Mapping[int, ToNote], begun: Sequence[Begun]) -> bytes:
    """Pack records for the coordinator of their crawls, with the notes in Kafka that precede them.

    ``noted`` has the notes by the offset of their record. ``begun`` are crawls of the previous
    answer that Kafka has stored.
    """
    profiles = Profiles()
    records = [_record(record, profiles, noted) for record in batch.records]
    place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
    return pack([*place, profiles.numbered(), records, _begun(begun)])


def _begun(begun: Sequence[Begun]) -> list[object]:
    flat = [part for one in begun for part in (FrontierKeys.crawl_field(one.crawl), one.generation)]
    return [begun[0].redis_epoch, *flat] if begun else []


def _record(record: Effect, profiles: Profiles, noted: Mapping[int, ToNote]) -> list[object]:
    if isinstance(record, Seed):
        return [
            "seed",
            record.offset,
            record.timestamp_ms,
            FrontierKeys.crawl_field(record.crawl),
            profiles.number(record.profile),
            record.priority,
            min(record.expires, LATEST_S),
            none_as(record.remember),
            *_occasion(record.crawl.appid, record.occasion),
            record.profile.uuid or "",
            _noted(record, noted),
            *pack_budgets(record.budgets),
        ]
    if isinstance(record, Command):
        return [
            "command",
            record.offset,
            record.timestamp_ms,
            record.name,
            record.request,
            FrontierKeys.crawl_field(record.crawl) if record.crawl else "",
            record.priority or min(record.until, LATEST_S),
            *_occasion(record.appid, record.occasion),
            _noted(record, noted),
        ]
    return pack_other(record)


def _occasion(appid: str, occasion: Occasion | None) -> list[object]:
    return pack_occasion(appid, occasion) if occasion else ["", 0]


def _noted(record: Seed | Command, noted: Mapping[int, ToNote]) -> list[object]:
    note = noted.get(record.offset)
    return [note.generation, note.redis_epoch] if note else []


def unpack_stamps(redis_epoch: int, flat: Sequence[int]) -> dict[int, Stamp]:
    """Return stamps by offset."""
    return {
        offset: Stamp(
            None if generation < 0 else generation,
            Version(redis_epoch, number),
            run,
            is_again=is_again,
        )
        for offset, generation, number, run, is_again in zip(*[iter(flat)] * 5, strict=True)
    }


def unpack_note(redis_epoch: int, packed: Sequence[Any]) -> ToNote | None:
    """Return the note that Kafka must store; None if there is nothing to note."""
    if not packed:
        return None
    offset, name, generation, how, run, covered = packed
    return ToNote(
        crawl_from(name),
        generation,
        how.decode(),
        redis_epoch,
        offset=None if offset < 0 else offset,
        run=run,
        covers={place.decode(): at for place, at in zip(*[iter(covered)] * 2, strict=True)},
    )


def unpack_begun(redis_epoch: int, flat: Sequence[Any]) -> list[Begun]:
    """Return the crawls that begin, for Kafka to store."""
    return [
        Begun(crawl_from(name), generation, run, redis_epoch)
        for name, generation, run in zip(*[iter(flat)] * 3, strict=True)
    ]


def pack_lapse(note: ToNote) -> bytes:
    """Pack the end of a run by the clock of its coordinator, after Kafka has stored it."""
    return pack([FrontierKeys.crawl_field(note.crawl), note.generation, note.redis_epoch])


def pack_fates(
    redis_epoch: int, marks: Sequence[CoordinatorMark], dedupe_ms: int, *, is_last: bool
) -> bytes:
    """Pack the marks of crawls in Kafka for a coordinator that is in a new epoch."""
    fates = [
        [
            mark.kind,
            FrontierKeys.crawl_field(mark.crawl),
            mark.generation,
            mark.run,
            [part for pair in mark.positions.items() for part in pair],
            mark.at_ms,
            none_as(mark.remember),
        ]
        for mark in marks
        if mark.crawl is not None
    ]
    return pack([redis_epoch, fates, dedupe_ms, is_last])
