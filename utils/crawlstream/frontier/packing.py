"""Values to the packed arguments of the operations, and their packed answers to values.

Packed means msgpack in its old form (no separate type for bytes), which is what Lua speaks; the
shapes are those in the header of each Lua file. -1 stands for "none" where a number is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, cast
from urllib.parse import unquote

import msgpack  # type: ignore[import-untyped]
import structlog

from crawlstream.frontier.links import Inheritance
from crawlstream.frontier.remembered import Remembered
from crawlstream.frontier.sites import Sites
from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import CrawlKey, Hold, Profile
from crawlstream.model.effects import Command, IntakeBatch, Seed, Settle
from crawlstream.model.state import CrawlState, DomainBacklog, FrontierState
from crawlstream.model.throttle import ThrottleRule, ThrottleTable
from crawlstream.wire import stored

log = structlog.get_logger()

_HEADER = re.compile(rb"([0-9]+)(?:,|;(...))", re.DOTALL)
"""Of a kept entry: its profile's number, and its marks if any; see ``lua/includes/holds.lua``."""
_MARK_ZERO = 33
_MOST = 2**31 - 1
"""Hits, windows (24 days) and sends are kept in 32 bits."""
_LATEST_S = 2**40
"""Times of clients are cut here, in the year 36 812: Lua counts in doubles."""


def pack(value: object) -> bytes:
    """Arguments for Lua."""
    return cast(bytes, msgpack.packb(value, use_bin_type=False))


def unpack(answer: object) -> Any:
    """An answer from Lua; text arrives as bytes."""
    return msgpack.unpackb(cast(bytes, answer), raw=True, strict_map_key=False)


def unpack_text(answer: object) -> Any:
    """An answer from Lua that holds text only, which arrives as such."""
    return msgpack.unpackb(cast(bytes, answer), raw=False)


def mapping(value: Any) -> Mapping[Any, Any]:
    """A Lua table used as a map; an empty one arrives as a list."""
    return value if isinstance(value, dict) else {}


def none_as(value: int | None) -> int:
    """A number that may be missing, for Lua."""
    return -1 if value is None else value


def crawl_from(name: bytes) -> CrawlKey:
    """The crawl that a name written by ``FrontierKeys.crawl_field`` stands for."""
    return CrawlKey(*map(unquote, name.decode().split(":")))


def pack_ends(settles: Iterable[Settle]) -> list[object]:
    """Settles without anything found: lists of tokens, sends and bytes by outcome and reason."""
    groups: dict[tuple[str, str], tuple[list[str], list[int], list[int]]] = {}
    for settle in settles:
        kind = (settle.outcome.value, settle.reason)
        tokens, sent, sizes = groups.setdefault(kind, ([], [], []))
        tokens.append(settle.token)
        sent.append(none_as(settle.sent_ms))
        sizes.append(settle.body_bytes)
    return [[*kind, *columns] for kind, columns in groups.items()]


_PROFILES = Remembered(stored.decode_profile, most_bytes=2 << 20)
"""The largest that a client can make, or thousands of usual ones; decoded, they may take thirty
times as much."""


def profile_from(packed: bytes) -> Profile:
    """The profile stored under a number; an empty one where it is gone."""
    return _PROFILES(packed) if packed else Profile()


def split_entry(entry: bytes) -> tuple[int, int, bytes]:
    """Header and body of a kept entry: retries, profile number, body."""
    header = _HEADER.match(entry)
    if not header:
        raise ValueError(f"not a stored entry: {entry[:40]!r}")
    number, marks = header.groups()
    return marks[0] - _MARK_ZERO if marks else 0, int(number), entry[header.end() :]


def unpack_holds(
    grants: Sequence[Any], *, call: int, issued_at: float
) -> tuple[list[Hold], dict[str, Inheritance]]:
    """The holds that a call was granted, and what their children inherit, by token.

    An entry that cannot be read (another version wrote it) is left out and said aloud: as nobody
    answers for its hold, it will be given back, perhaps to a worker that understands it.
    """
    granted, flat_lots, crawls, profiles = grants
    lots = list(zip(flat_lots[::2], flat_lots[1::2], strict=True))
    runs = {c: (crawl_from(v[0]), v[1], bool(v[2])) for c, v in mapping(crawls).items()}
    packed, known = mapping(profiles), dict[bytes, Profile]()
    holds, inherited = [], {}
    for place, lot, domain, entry in zip(*[iter(granted)] * 4, strict=True):
        c, priority = lots[lot - 1]
        crawl, run, recovered = runs[c]
        token = f"{call}-{place}"
        try:
            retries, number, body = split_entry(entry)
            where = b"%s/%d" % (c, number)
            profile = known.get(where) or known.setdefault(where, profile_from(packed[where]))
            kept = stored.decode_entry(body)
        except ValueError:
            log.exception("lease", outcome="unreadable", token=token)
            continue
        inherited[token] = Inheritance(c, run, number, profile.domain_max_pages, profile.max_pages)
        holds.append(
            Hold(
                token=token,
                crawl=crawl,
                run=run,
                domain=domain.decode(),
                priority=priority,
                entry=kept,
                profile=profile,
                retries=retries,
                issued_at=issued_at,
                recovered=recovered,
            )
        )
    return holds, inherited


def pack_stop_ahead(topic_id: str, kafka_partition: int, stop: Command) -> bytes:
    """A stop that need not wait for its turn."""
    return pack([topic_id, kafka_partition, 0, 0, [], [_pack_command(stop)], True, -1])


def pack_intake(batch: IntakeBatch, sites: Sites) -> bytes:
    """A batch of records; equal profiles travel once."""
    profiles = _Profiles()
    records = [
        _pack_seed(record, profiles, sites) if isinstance(record, Seed) else _pack_command(record)
        for record in batch.records
    ]
    numbered = [[blake2b(packed, digest_size=8).hexdigest(), packed] for packed in profiles.packed]
    place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
    return pack([*place, numbered, records, False, batch.leader_epoch])


class _Profiles:
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


def _pack_seed(seed: Seed, profiles: _Profiles, sites: Sites) -> list[object]:
    site = sites.of_seed(seed)
    return [
        "seed",
        seed.offset,
        seed.timestamp_ms,
        FrontierKeys.crawl_field(seed.crawl),
        seed.domain,
        seed.priority,
        encode_id(seed.crawl.spiderid),
        seed.fingerprint,
        seed.entry,
        profiles.number(seed.profile),
        none_as(seed.profile.domain_max_pages),
        none_as(seed.profile.max_pages),
        min(seed.expires, _LATEST_S),
        int(min(seed.not_before, _LATEST_S) * 1000),
        seed.profile.uuid or "",
        *([site] if site else []),
    ]


def _pack_command(command: Command) -> list[object]:
    name = FrontierKeys.crawl_field(command.crawl) if command.crawl else ""
    return [
        "command",
        command.offset,
        command.timestamp_ms,
        command.name,
        command.request,
        name,
        command.priority or 0,
    ]


def pack_table(table: ThrottleTable, *, adopt: bool) -> bytes:
    """The throttle table as the frontier applies it, and as it was written."""
    parted = table.parted()
    rules = {domain: _rule_text(rule) for domain, rule in table.rules.items() if _is_name(domain)}
    blocked = {name for name in parted if table.block_of(name)} | table.blacklist
    for domain in filter(_is_name, blocked):
        rules[domain] = _rule_text(table.rule_for(domain), hits=0)
    flat = [part for pair in rules.items() for part in pair]
    return pack(
        [
            str(table.czxid),
            str(table.mzxid),
            adopt,
            _rule_text(table.default),
            flat,
            pack(_table_fields(table)),
            bool(parted),
        ]
    )


def _is_name(domain: str) -> bool:
    """Whether a domain can be called so; the others would be taken for fields of our own."""
    return domain not in {"", "#"}


def _rule_text(rule: ThrottleRule, hits: int | None = None) -> str:
    allowed = _bounded(rule.effective_hits if hits is None else hits)
    window_ms = max(_bounded(int(rule.window_s * 1000)), 1)
    return f"{allowed} {window_ms} {int(rule.moderated)} {_bounded(rule.concurrency)}"


def _bounded(number: int) -> int:
    return min(max(number, 0), _MOST)


def _table_fields(table: ThrottleTable) -> list[object]:
    def fields(rule: ThrottleRule) -> list[object]:
        return [rule.hits, rule.window_s, rule.scale, rule.moderated, rule.concurrency]

    rules = {domain: fields(rule) for domain, rule in table.rules.items()}
    return [fields(table.default), rules, sorted(table.blacklist), table.czxid, table.mzxid]


def unpack_table(blob: bytes) -> ThrottleTable:
    """The table that ``pack_table`` wrote beside the rules."""

    def rule(fields: Sequence[Any]) -> ThrottleRule:
        hits, window_s, scale, moderated, concurrency = fields
        return ThrottleRule(
            hits=hits,
            window_s=window_s,
            scale=scale,
            moderated=moderated,
            concurrency=concurrency,
        )

    default, rules, blacklist, czxid, mzxid = msgpack.unpackb(blob, raw=False)
    return ThrottleTable(
        default=rule(default),
        rules={domain: rule(fields) for domain, fields in rules.items()},
        blacklist=frozenset(blacklist),
        czxid=czxid,
        mzxid=mzxid,
    )


def texts(items: Iterable[bytes]) -> frozenset[str]:
    """Distinct texts of an answer, such as tokens."""
    return frozenset(item.decode() for item in items)


def pairs(flat: Sequence[bytes]) -> dict[str, str]:
    """A flat list of fields and values, as HGETALL gives it."""
    parts = [part.decode() for part in flat]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def by_reason(fields: Mapping[str, str], kind: str) -> dict[str, int]:
    """Counters ``<kind>:<reason>`` of a crawl record."""
    prefix = kind + ":"
    return {
        field.removeprefix(prefix): int(value)
        for field, value in fields.items()
        if field.startswith(prefix)
    }


_as_backlog = partial(tuple.__new__, DomainBacklog)
"""``DomainBacklog._make`` without a frame of Python for each of 100 000."""


def backlog(listed: Sequence[Any], blocked: Iterable[str]) -> dict[str, DomainBacklog]:
    """Domains of a crawl, by name, from a flat list: name, total, high and low priority."""
    names, totals, highs, lows = (listed[column::4] for column in range(4))
    is_blocked = map(frozenset(blocked).__contains__, names)
    columns = zip(names, totals, highs, lows, is_blocked, strict=True)
    return dict(zip(names, map(_as_backlog, columns), strict=True))


def why_full(used: int, limit: int) -> str:
    """Why seeds wait, and what ends it."""
    return (
        f"Redis uses {used / 2**20:.0f} of its {limit / 2**20:.0f} MiB: seeds stay in Kafka"
        " until pages are done, a crawl is stopped, or maxmemory is raised"
    )


def frontier_state(answer: Sequence[Any]) -> FrontierState:
    """Counters of the frontier."""
    life, clock_ms, rules_known, crawls, queued, delayed, held, *rest = answer
    workers, outbox, actions, memory_used, memory_limit, is_full, residual, spilled, spiders = rest
    domains = zip(spiders[::2], spiders[1::2], strict=True)
    return FrontierState(
        life=life,
        clock_ms=clock_ms,
        rules_known=rules_known,
        crawls=crawls,
        queued=queued,
        delayed=delayed,
        held=held,
        workers=workers,
        outbox=outbox,
        actions=actions,
        memory_used=int(memory_used),
        memory_limit=int(memory_limit),
        is_full=bool(is_full),
        residual=residual,
        spilled=spilled,
        backlog={unquote(name.decode()): {"domains": n} for name, n in sorted(domains)},
    )


def crawl_state(fields: Mapping[str, str], domains: Sequence[DomainBacklog]) -> CrawlState:
    """A crawl's record and its domains as a value."""

    def number(field: str) -> int:
        return int(fields.get(field, 0))

    return CrawlState(
        crawl=crawl_from(fields["name"].encode()),
        run=number("run"),
        state="paused" if "paused" in fields else fields["state"],
        started_at=number("started") / 1000,
        last_activity=number("active") / 1000,
        expires=number("expires"),
        admitted=number("admitted"),
        queued=number("queued"),
        delayed=number("delayed"),
        held=number("held"),
        spilled=number("spilled"),
        done=number("done"),
        failed=number("failed"),
        redirected=number("redirected"),
        stopped=number("stopped"),
        expired=number("expired"),
        body_bytes=number("bytes"),
        done_by_status=by_reason(fields, "n"),
        failed_by_reason=by_reason(fields, "f"),
        filtered_by_reason=by_reason(fields, "z"),
        domains=domains,
    )
