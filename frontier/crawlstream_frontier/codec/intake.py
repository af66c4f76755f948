"""Records on their way in, in the shapes of ``lua/intake.lua``, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import Profile
from crawlstream.model.effects import (
    Command,
    Effect,
    IntakeBatch,
    IntakeResult,
    ScheduleChange,
    Seed,
    Seen,
)
from crawlstream.model.egress.render import lane_of
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.wire import schedules, stored
from crawlstream_frontier.codec.entries import hash_of_profile
from crawlstream_frontier.codec.values import none_as, pack

SiteOf = Callable[[Seed], str | None]
"""Tells the site of a seed; None if that is its domain."""

LATEST_S = 2**40
"""Times of clients are cut here, in the year 36 812: Lua counts in doubles."""


def pack_stop_ahead(topic_id: str, kafka_partition: int, stop: Command) -> bytes:
    """A stop that need not wait for its turn."""
    return pack([topic_id, kafka_partition, 0, 0, [], [_pack_command(stop)], True, -1])


def pack_intake(batch: IntakeBatch, site_of: SiteOf) -> bytes:
    """A batch of records; equal profiles travel once."""
    profiles = Profiles()
    records = [
        _pack_seed(record, profiles, site_of) if isinstance(record, Seed) else pack_other(record)
        for record in batch.records
    ]
    place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
    return pack([*place, profiles.numbered(), records, False, batch.leader_epoch])


class Profiles:
    """The profiles of one batch, numbered from 1; seeds of one crawl mostly share the very object.

    Objects are told apart by their identity: all of them live as long as the batch.
    """

    __slots__ = ("_numbers", "packed")

    def __init__(self) -> None:
        self.packed: dict[bytes, int] = {}
        self._numbers: dict[int, int] = {}

    def number(self, profile: Profile) -> int:
        """The number of a profile; equal ones have the same."""
        number = self._numbers.get(id(profile))
        if number is None:
            packed = stored.encode_profile(profile)
            number = self.packed.setdefault(packed, len(self.packed) + 1)
            self._numbers[id(profile)] = number
        return number

    def numbered(self) -> list[list[object]]:
        """Hash and text of each, in the order of their numbers."""
        return [[hash_of_profile(packed), packed] for packed in self.packed]


def _pack_seed(seed: Seed, profiles: Profiles, site_of: SiteOf) -> list[object]:
    site = site_of(seed)
    if seed.occasion or seed.remember is not None:
        occasion = pack_occasion(seed.crawl.appid, seed.occasion) if seed.occasion else ["", 0]
        more = [site or "", none_as(seed.remember), *occasion]
    else:
        more = [site] if site else []
    return [
        "seed",
        seed.offset,
        seed.timestamp_ms,
        FrontierKeys.crawl_field(seed.crawl),
        seed.domain,
        seed.priority,
        encode_id(lane_of(seed.crawl.spiderid, renders=seed.profile.render is not None)),
        seed.fingerprint,
        seed.entry,
        profiles.number(seed.profile),
        none_as(seed.profile.domain_max_pages),
        none_as(seed.profile.max_pages),
        min(seed.expires, LATEST_S),
        int(min(seed.not_before, LATEST_S) * 1000),
        seed.profile.uuid or "",
        *more,
    ]


def pack_occasion(appid: str, occasion: Occasion) -> list[object]:
    """Its name, and which of its records it is."""
    field = FrontierKeys.schedule_field(appid, occasion.schedule)
    return [f"{field}:{occasion.at}", occasion.n]


def pack_other(record: Effect) -> list[object]:
    """What is no seed."""
    if isinstance(record, Seen):
        occasion = pack_occasion(record.appid, record.occasion)
        return ["seen", record.offset, record.timestamp_ms, *occasion]
    if isinstance(record, ScheduleChange):
        return [
            "schedule",
            record.offset,
            record.timestamp_ms,
            record.do,
            record.request,
            FrontierKeys.schedule_field(record.appid, record.name),
            schedules.encode(record.schedule) if record.schedule else "",
            record.most,
        ]
    assert isinstance(record, Command)
    return _pack_command(record)


def _pack_command(command: Command) -> list[object]:
    name = FrontierKeys.crawl_field(command.crawl) if command.crawl else ""
    return [
        "command",
        command.offset,
        command.timestamp_ms,
        command.name,
        command.request,
        name,
        command.priority or min(command.until, LATEST_S),
        *(pack_occasion(command.appid, command.occasion) if command.occasion else []),
    ]


WHILE_MOVED = "the frontier is being moved (./crawlstream repartition): requests stay in Kafka"


def why_full(used: int, limit: int) -> str:
    """Why seeds wait, and what ends it."""
    if not limit:
        return WHILE_MOVED
    return (
        f"Redis uses {used / 2**20:.0f} of its {limit / 2**20:.0f} MiB: seeds stay in Kafka"
        " until pages are done, a crawl is stopped, or maxmemory is raised"
    )


class IntakeAnswer(NamedTuple):
    """What ``intake.lua`` answers where a batch took effect."""

    result: IntakeResult
    sites_version: bytes
    """Of the map of sites in force, if hosts are parted by it."""


def unpack_intake(answer: Sequence[Any]) -> IntakeAnswer:
    """The fields of an unpacked answer."""
    _, applied, runs, refused, sites_version, repeated = answer
    result = IntakeResult(
        applied=applied,
        runs=dict(zip(runs[::2], runs[1::2], strict=True)),
        refused={n: reason.decode() for n, reason in zip(*[iter(refused)] * 2, strict=True)},
        repeated=repeated,
    )
    return IntakeAnswer(result, sites_version)
