"""Records for the intake, and its answer, in the shapes of ``lua/intake.lua``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from crawlstream.called import COMMAND
from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import ANSWER_PAGE, Budgets, Profile
from crawlstream.model.effects import (
    AppliedSeed,
    Command,
    Effect,
    IntakeBatch,
    IntakeResult,
    ScheduleChange,
    Seed,
)
from crawlstream.model.egress.render import lanes_of
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.wire import schedules, stored
from crawlstream_frontier.codec.entries import hash_of_profile
from crawlstream_frontier.codec.values import none_as, pack
from crawlstream_frontier.link_rules.promotion import in_tens

SiteOf = Callable[[Seed], str | None]
"""Returns the site of a seed; None if the site is its domain."""

_WAITS = "\0"
"""No uuid contains it."""

LATEST_S = 2**40
"""Upper limit of times from clients, in the year 36 812, because Lua uses doubles."""


def pack_stop_ahead(topic_id: str, kafka_partition: int, stop: Command) -> bytes:
    """Pack a stop that takes effect before its turn."""
    return pack([topic_id, kafka_partition, 0, 0, [], [_pack_command(stop)], True, -1])


def pack_intake(batch: IntakeBatch, site_of: SiteOf) -> bytes:
    """Pack a batch of records; equal profiles are sent once."""
    profiles = Profiles()
    records = [
        _pack_seed(record, profiles, site_of) if isinstance(record, Seed) else pack_other(record)
        for record in batch.records
    ]
    place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
    return pack([*place, profiles.numbered(), records, False, batch.leader_epoch])


class Profiles:
    """The profiles of one batch, numbered from 1; most seeds of a crawl share one object.

    Objects are distinguished by their identity, since all of them exist as long as the batch.
    """

    __slots__ = ("_numbers", "packed")

    def __init__(self) -> None:
        self.packed: dict[bytes, int] = {}
        self._numbers: dict[int, int] = {}

    def number(self, profile: Profile) -> int:
        """Return the number of a profile; equal profiles have the same number."""
        number = self._numbers.get(id(profile))
        if number is None:
            packed = stored.encode_profile(profile)
            number = self.packed.setdefault(packed, len(self.packed) + 1)
            self._numbers[id(profile)] = number
        return number

    def numbered(self) -> list[list[object]]:
        """Return hash and text of each profile, in the order of their numbers."""
        return [[hash_of_profile(packed), packed] for packed in self.packed]


def entry_fields(seed: Seed, profiles: Profiles) -> list[object]:
    """Return the fields of a seed that its partition admits, from its domain to its page limits."""
    return [
        seed.domain,
        in_tens(seed.priority) if _is_in_tens(seed.profile) else seed.priority,
        encode_id(lanes_of(seed.crawl.spiderid, seed.profile.render)[0]),
        seed.fingerprint,
        seed.entry,
        profiles.number(seed.profile),
        none_as(seed.profile.domain_max_pages),
        none_as(seed.profile.max_pages),
    ]


def _is_in_tens(profile: Profile) -> bool:
    """Return whether the last digit of a priority has a meaning of its own."""
    return profile.score is not None or profile.host_budget is not None


def reply_to(seed: Seed) -> str:
    """Return the uuid of a seed; with a NUL before it if its client waits for the page."""
    uuid = seed.profile.uuid or ""
    return _WAITS + uuid if uuid and seed.profile.answer == ANSWER_PAGE else uuid


def due_ms(seed: Seed) -> int:
    """Return the time before which a seed must not be fetched."""
    return int(min(seed.not_before, LATEST_S) * 1000)


def _pack_seed(seed: Seed, profiles: Profiles, site_of: SiteOf) -> list[object]:
    site = site_of(seed)
    if seed.occasion or seed.remember is not None or seed.budgets:
        occasion = pack_occasion(seed.crawl.appid, seed.occasion) if seed.occasion else ["", 0]
        more = [site or "", none_as(seed.remember), *occasion, *pack_budgets(seed.budgets)]
    else:
        more = [site] if site else []
    return [
        "seed",
        seed.offset,
        seed.timestamp_ms,
        FrontierKeys.crawl_field(seed.crawl),
        *entry_fields(seed, profiles),
        min(seed.expires, LATEST_S),
        due_ms(seed),
        reply_to(seed),
        *more,
    ]


def pack_budgets(budgets: Budgets | None) -> list[object]:
    """Return the budgets of a seed as one field, or no field."""
    if budgets is None:
        return []
    return [[budgets.max_seconds or 0, budgets.max_bytes or 0, budgets.max_failed_share or 0]]


def pack_occasion(appid: str, occasion: Occasion) -> list[object]:
    """Return the name of an occasion, and the number of the record in it."""
    field = FrontierKeys.schedule_field(appid, occasion.schedule)
    return [f"{field}:{occasion.at}", occasion.n]


def pack_other(record: Effect) -> list[object]:
    """Pack a record that is not a seed."""
    if isinstance(record, AppliedSeed):
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


WHILE_MOVED = f"the frontier is being moved ({COMMAND} repartition): requests stay in Kafka"


def why_full(used: int, limit: int) -> str:
    """Return the reason why seeds wait, and how to end it."""
    if not limit:
        return WHILE_MOVED
    return (
        f"Redis uses {used / 2**20:.0f} of its {limit / 2**20:.0f} MiB: seeds stay in Kafka"
        " until pages are done, a crawl is stopped, or maxmemory is raised"
    )


class IntakeAnswer(NamedTuple):
    """Answer of ``intake.lua`` to a batch that took effect."""

    result: IntakeResult
    sites_version: bytes
    """Version of the map of sites in force, if hosts are divided by it."""


def unpack_intake(answer: Sequence[Any]) -> IntakeAnswer:
    """Return the result of an unpacked answer."""
    _, applied, runs, refused, sites_version, repeated = answer
    result = IntakeResult(
        applied=applied,
        runs=dict(zip(runs[::2], runs[1::2], strict=True)),
        refused={n: reason.decode() for n, reason in zip(*[iter(refused)] * 2, strict=True)},
        repeated=repeated,
    )
    return IntakeAnswer(result, sites_version)
