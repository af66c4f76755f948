"""Messages of partitions and coordinators, in the shapes of ``lua/operations/partitions``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import Budgets, CrawlKey
from crawlstream.model.effects import IntakeBatch, Seed
from crawlstream.model.partitions.messages import (
    ChangeAnswer,
    ContextChange,
    ContextKey,
    ContextReport,
    Label,
    OpenRun,
    Question,
    RegisteredRun,
    SeedsOf,
    Spent,
    Stamp,
    Version,
)
from crawlstream.model.statuses import PAGE_ENDS, UNFINISHED
from crawlstream_frontier.codec.intake import Profiles, SiteOf, due_ms, entry_fields, reply_to
from crawlstream_frontier.codec.state import BUDGETS, SUMMED
from crawlstream_frontier.codec.values import crawl_from, none_as, pack, pairs


def unpack_registered_runs(
    crawls: Sequence[CrawlKey], packed: Sequence[Any]
) -> dict[CrawlKey, RegisteredRun]:
    """Return the runs of the crawls that a coordinator knows."""
    return {
        crawl: RegisteredRun(
            run=run[0],
            state=run[1].decode(),
            paused_until=None if run[2] < 0 else run[2],
            expires=run[3],
            remember=None if run[4] < 0 else run[4],
            generation=run[5],
            budgets={name: most for name, most in zip(BUDGETS, run[6:], strict=True) if most},
        )
        for crawl, run in zip(crawls, packed, strict=True)
        if run
    }


def pack_take(
    batch: IntakeBatch, stamps: Mapping[int, Stamp], site_of: SiteOf, seeds_of: SeedsOf
) -> bytes:
    """Pack seeds for the partition of their domains, without seeds of runs that are over."""
    profiles = Profiles()
    coordinators = seeds_of.by_offset
    seeds = [
        [
            *_stamped(record, stamps[record.offset], profiles, site_of),
            coordinators.get(record.offset, 0),
        ]
        for record in batch.records
        if isinstance(record, Seed) and stamps[record.offset].generation is not None
    ]
    place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
    untold = [offset for span in seeds_of.reported_elsewhere for offset in span]
    whose = [seeds_of.coordinators, sorted(seeds_of.absent), untold]
    return pack([*place, profiles.numbered(), seeds, *whose])


def _stamped(seed: Seed, stamp: Stamp, profiles: Profiles, site_of: SiteOf) -> list[object]:
    return [
        seed.offset,
        FrontierKeys.crawl_field(seed.crawl),
        stamp.generation,
        *stamp.version,
        stamp.run,
        *entry_fields(seed, profiles),
        due_ms(seed),
        reply_to(seed),
        site_of(seed) or "",
        stamp.is_again,
    ]


def unpack_questions(packed: Sequence[Any]) -> list[Question]:
    """Return the questions for coordinators."""
    return [
        Question(
            ContextKey(crawl_from(name), generation),
            frozenset(map(bytes.decode, hashes)),
            is_of_credits=bool(credits_),
        )
        for name, generation, hashes, *credits_ in packed
    ]


def unpack_context(packed: Sequence[Any]) -> ContextKey | None:
    """Return a context by its name; None if there is none."""
    return ContextKey(crawl_from(packed[0]), packed[1]) if packed else None


def pack_questions(questions: Iterable[Question]) -> bytes:
    """Pack questions for a coordinator."""
    return pack([[[*_context(asked.context), [*asked.profiles]] for asked in questions]])


def unpack_labels(
    redis_epoch: int, questions: Sequence[Question], packed: Sequence[Any]
) -> list[Label]:
    """Return the labels that a coordinator answers with, in the order of the questions."""
    return [
        Label(
            context=asked.context,
            version=Version(redis_epoch, number),
            run=run,
            state=state.decode(),
            paused_until=None if paused_until < 0 else paused_until,
            shift=shift,
            expires=expires,
            occasion=occasion.decode(),
            profiles=dict(zip(profiles[::2], profiles[1::2], strict=True)),
        )
        for asked, said in zip(questions, packed, strict=True)
        for number, run, state, paused_until, shift, expires, occasion, profiles in [said]
    ]


def pack_labels(redis_epoch: int, labels: Iterable[Label]) -> bytes:
    """Pack labels for the partition that requested them in ``redis_epoch``."""
    return pack(
        [
            redis_epoch,
            [
                [
                    *_context(label.context),
                    *label.version,
                    label.run,
                    label.state,
                    none_as(label.paused_until),
                    label.shift,
                    label.expires,
                    label.occasion,
                    [part for pair in label.profiles.items() for part in pair],
                ]
                for label in labels
            ],
        ]
    )


def pack_changes(tells: Iterable[ContextChange]) -> bytes:
    """Pack label changes that a partition did not request."""
    labels: list[list[object]] = [
        [
            *_context(told.context),
            *told.version,
            0,
            "dead" if told.is_dead and told.what != "expired" else told.what,
            -1,
            0,
            0,
            "",
            [],
        ]
        for told in tells
    ]
    return pack([0, labels])


def unpack_change_answers(
    tells: Sequence[ContextChange], reports: Sequence[Any]
) -> list[ChangeAnswer]:
    """Return the answers of a partition; ``reports`` has one for each dead generation, in order."""
    of_dead = iter(reports)
    told = []
    for tell in tells:
        if not tell.is_dead:
            told.append(ChangeAnswer(tell))
            continue
        purged, is_drained, ledger = next(of_dead)
        told.append(ChangeAnswer(tell, purged, bool(is_drained), _counters(ledger)))
    return told


def pack_change_answers(answers: Iterable[ChangeAnswer]) -> bytes:
    """Pack the answers of partitions for the coordinator."""
    return pack(
        [
            [
                [
                    one.tell.name,
                    one.purged,
                    one.is_drained,
                    [part for field, value in one.ledger.items() for part in (field, value)],
                ]
                for one in answers
            ]
        ]
    )


def unpack_changes(flat: Sequence[Any]) -> list[ContextChange]:
    """Return the label changes that partitions must receive."""
    pairs_of = zip(*[iter(flat)] * 2, strict=True)
    return [_tell(name.decode(), is_dead=bool(is_dead)) for name, is_dead in pairs_of]


def _tell(name: str, *, is_dead: bool) -> ContextChange:
    crawl, generation, redis_epoch, number, partition, what = name.split(" ")
    return ContextChange(
        context=ContextKey(crawl_from(crawl.encode()), int(generation)),
        version=Version(int(redis_epoch), int(number)),
        partition=int(partition),
        what=cast(Any, what),
        is_dead=is_dead,
        name=name,
    )


def unpack_runs(redis_epoch: int, runs: Sequence[Any]) -> list[OpenRun]:
    """Return the runs that may be over."""
    return [
        OpenRun(
            ContextKey(crawl_from(name), generation),
            Version(redis_epoch, number),
            run,
            offsets_in(seeds),
        )
        for name, generation, number, run, seeds in runs
    ]


def pack_spent(spent: Sequence[Spent]) -> bytes:
    """Pack the runs that have spent a budget."""
    runs = [
        [FrontierKeys.crawl_field(each.context.crawl), each.context.generation, *each[1:]]
        for each in spent
    ]
    return pack([runs])


def unpack_budgeted(redis_epoch: int, runs: Sequence[Any]) -> list[OpenRun]:
    """Return the open runs that have budgets, without their seeds."""
    return [
        OpenRun(
            ContextKey(crawl_from(name), generation),
            Version(redis_epoch, number),
            run,
            {},
            Budgets(max_bytes=max_bytes, max_failed_share=share),
        )
        for name, generation, number, run, max_bytes, share in runs
    ]


def offsets_in(flat: Sequence[Any]) -> dict[tuple[str, int], int]:
    """Return offsets by topic UUID and Kafka partition, from a flat list of places and offsets."""
    found = {}
    for place, offset in zip(flat[::2], flat[1::2], strict=True):
        topic_id, _, partition = place.decode().rpartition(":")
        found[topic_id, int(partition)] = int(offset)
    return found


def unpack_report(packed: Sequence[Any]) -> ContextReport:
    """Return the report of a partition on one context."""
    is_idle, is_leasable, need, run, ledger, is_short = packed
    needed = {int(q): int(at) for q, at in zip(need[::2], need[1::2], strict=True)}
    counters = _counters(ledger)
    kept = {
        name.removeprefix(_KEPT): counters.pop(name)
        for name in [*counters]
        if name.startswith(_KEPT)
    }
    kept_run = counters.pop("kept", 0)
    return ContextReport(
        bool(is_idle),
        bool(is_leasable),
        needed,
        run,
        counters,
        is_short=bool(is_short),
        kept_run=kept_run,
        kept=kept,
    )


def _counters(ledger: Sequence[bytes]) -> dict[str, int]:
    """Return the counters of the current run, and with a prefix those of the run before it."""
    return {
        field: int(value)
        for field, value in pairs(ledger).items()
        if (name := field.removeprefix(_KEPT)) in _COUNTERS
        or name[:2] in _BY_REASON
        or field == "kept"
    }


_KEPT = "kept:"
_BY_REASON = frozenset(f"{letter}:" for letter in SUMMED)
_COUNTERS = frozenset({"admitted", *PAGE_ENDS, "bytes", *UNFINISHED})


def pack_finish(run: OpenRun, ledger: Mapping[str, int]) -> bytes:
    """Pack the end of a run, with the counters of all partitions."""
    fields = [str(part) for pair in ledger.items() for part in pair]
    return pack([*_context(run.context), *run.version, fields])


def _name(crawl: CrawlKey) -> str:
    return FrontierKeys.crawl_field(crawl)


def _context(context: ContextKey) -> tuple[str, int]:
    return _name(context.crawl), context.generation
