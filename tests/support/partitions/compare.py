"""Comparison of a partition in Redis with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from crawlstream.keys import FrontierKeys
from crawlstream.wire.stored import decode_entry
from crawlstream_frontier.codec.entries import split_entry
from support.frontier.bench import fingerprint
from support.partitions import values as model
from support.partitions.real import INCOMING, LINKS, PRIORITY, Part
from support.partitions.values import COORDINATOR

if TYPE_CHECKING:
    from support.partitions.replay import Replay

_OUTCOMES = (
    "done",
    "failed",
    "redirected",
    "skipped",
    "stopped",
    "expired",
    "queued",
    "delayed",
    "held",
)


class Kept(NamedTuple):
    """State of the latest generation of the crawl in a partition, read from Redis."""

    generation: int
    is_live: bool
    ledger: Mapping[str, str]
    need: Mapping[int, int]
    queue: Counter[str]
    held: frozenset[tuple[str, int]]
    seen: frozenset[str]

    @property
    def label(self) -> list[int]:
        """Its fields, as `standings.lua` has them."""
        return [*map(int, self.ledger["label"].split(" "))]


async def kept_by(replay: Replay, part: Part) -> Kept | None:
    """Return the state that a partition has of the crawl; None: nothing."""
    redis, tag = part.redis, part.keys.tag
    name = FrontierKeys.crawl_field(replay.real.crawl)
    record = await redis.hget(part.keys.names(), name)
    if record is None:
        return None
    c, generation, live = record.decode().split(" ")
    domains = [replay.real.domains[url] for url in replay.real.domains]
    held_by = {f"{tag}h:{name}": key for key, name in part.holders.items()}
    async with redis.pipeline() as pipe:
        pipe.hgetall(f"{tag}x:{c}")
        pipe.hgetall(f"{tag}need:{c}")
        pipe.smembers(f"{tag}s:{c}:1")
        for domain in domains:
            pipe.lrange(f"{tag}b:link:{c}/{PRIORITY}:{domain}", 0, -1)
        for holder in held_by:
            pipe.hkeys(holder)
        ledger, need, seen, *lists = await pipe.execute()
    entries = [entry for band in lists[: len(domains)] for entry in band]
    urls = [decode_entry(split_entry(entry)[2]).url for entry in entries]
    leases = zip(held_by.values(), lists[len(domains) :], strict=True)
    return Kept(
        generation=int(generation),
        is_live=live == "1",
        ledger={field.decode(): value.decode() for field, value in ledger.items()},
        need={int(q): int(offset) for q, offset in need.items()},
        queue=Counter(replay.real.urls[fingerprint(url)] for url in urls),
        held=frozenset((k[1], k[2]) for k, f in leases if _has_hold(f) and k[0] == int(generation)),
        seen=frozenset(replay.real.urls[one.decode()] for one in seen),
    )


def _has_hold(fields: Iterable[bytes]) -> bool:
    return any(b"-" in field for field in fields)


async def assert_same(replay: Replay, places: Iterable[int]) -> None:
    """Queue, leases, duplicate filter, need, label and positions are those of the model."""
    for place in places:
        part, partition = replay.real.parts[place], replay.state.partitions[place]
        positions = await part.redis.hgetall(part.keys.positions())
        assert int(positions[f"{LINKS}:{place}".encode()]) == partition.links_position
        assert int(positions[f"{INCOMING}:0".encode()]) == partition.seeds_position
        kept = await _kept_with_profiles(replay, place)
        for generation, context in enumerate(partition.contexts):
            if kept is None or kept.generation != generation:
                _assert_none(context, is_earlier=kept is not None and generation < kept.generation)
            else:
                _assert_context(replay, context, kept)
                look = await part.contexts.look([replay.real.context(generation)])
                assert look.reports[0].is_leasable == partition.may_lease(generation), context
    await _assert_registry(replay)


async def _kept_with_profiles(replay: Replay, place: int) -> Kept | None:
    """Return the state of a partition that lacks no profile any more."""
    part = replay.real.parts[place]
    kept = await kept_by(replay, part)
    wants = kept is not None and kept.is_live and kept.label[-2]
    if not kept or not wants or not replay.state.partitions[place].may_lease(kept.generation):
        return kept
    await replay.real.provide(place, kept.generation)
    return await kept_by(replay, part)


def _assert_none(context: model.Context, *, is_earlier: bool) -> None:
    """A context that Redis has nothing of, or nothing any more."""
    assert context.is_dead or not is_earlier
    assert not context.queue
    assert is_earlier or not context.held
    assert is_earlier or not (context.seen or any(context.need)), context


def _assert_context(replay: Replay, context: model.Context, kept: Kept) -> None:
    _assert_balance(kept)
    if context.is_dead:
        return
    assert kept.is_live
    assert kept.queue == Counter(context.queue), (kept.queue, context.queue)
    assert kept.held == context.held
    assert kept.seen == context.seen
    assert [kept.need.get(q, 0) for q in range(len(context.need))] == [*context.need]
    _, known_life, known_number, hint_life, hint_number, *_ = kept.label
    assert (hint_life, hint_number) == replay.version(context.hint)
    if (known_life, known_number) == (0, 0) and context.label == 0:
        return  # It has come to be after the coordinator had told something.
    assert (known_life, known_number) == replay.version(context.known)
    assert int(kept.ledger["run"]) == context.label


def _assert_balance(kept: Kept) -> None:
    """The ledger adds up, and says what there is."""
    of = {name: int(kept.ledger.get(name, 0)) for name in ("admitted", *_OUTCOMES)}
    assert of["admitted"] == sum(of[name] for name in _OUTCOMES), of
    if kept.is_live:
        assert (of["queued"], of["held"]) == (kept.queue.total(), len(kept.held))


async def _assert_registry(replay: Replay) -> None:
    coordinator = replay.real.parts[COORDINATOR]
    name = FrontierKeys.crawl_field(replay.real.crawl)
    packed, position, restored, told = await _read_coordinator(coordinator, name)
    registry, state = replay.state.registry, replay.state
    assert int(position) == registry.position
    is_restored = registry.restored == state.partitions[COORDINATOR].life
    assert (int(restored) == coordinator.epochs[state.partitions[COORDINATOR].life]) == is_restored
    assert told == len(registry.tell)
    if packed is None:
        assert (registry.run, registry.number, registry.generation) == (0, 0, 0)
        return
    known = msgpack.unpackb(packed)
    assert known["run"] == registry.run
    assert known["is_open"] == registry.is_open
    assert known["g"] == registry.generation
    assert known["number"] == registry.number
    assert known["is_published"] == registry.is_published
    assert known.get("owed") == (registry.owed.run if registry.owed else None)


async def _read_coordinator(coordinator: Part, name: str) -> Any:
    async with coordinator.redis.pipeline() as pipe:
        pipe.hget(coordinator.keys.tag + "reg", name)
        pipe.hget(coordinator.keys.enrolled(), f"{INCOMING}:0")
        pipe.hget(coordinator.keys.meta(), "restored")
        pipe.scard(coordinator.keys.tag + "tell")
        return await pipe.execute()
