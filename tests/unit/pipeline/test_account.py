"""Accounts close, are bounded, and come back as they were; repeats are those of the chain."""

from __future__ import annotations

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_service.records.account import KEPT_MS, MOST_RUNS, Account, summed
from pipeline_service.sinks.files.repeats import ID_BYTES, Repeats, short

OUTCOMES = ("delivered", "repeats", "filtered", "undelivered")

counts = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(1, 1000),
        st.sampled_from(OUTCOMES),
        st.sampled_from(["x", "y"]),
        st.sampled_from([(), ("reserved",), ("dropped.noindex", "reserved")]),
    ),
    max_size=30,
)


Record = tuple[str | None, int, str, str, tuple[str, ...]]


def account_of(records: list[Record]) -> Account:
    """Return the totals of these records."""
    account = Account()
    for run, at_ms, outcome, reason, marks in records:
        account.count(run, at_ms, outcome, reason, marks=marks)
    return account


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(counts, counts)
def test_an_account_closes_whatever_is_counted(one: list[Record], other: list[Record]) -> None:
    """Balances in total and for each run; sums equal counts at once."""
    added = summed([account_of(one), account_of(other)])
    whole = summed([account_of(one + other)])
    assert added.as_record() == whole.as_record()
    assert added.total.read == len(one) + len(other)
    assert added.total.marks.total() == sum(len(marks) for *_, marks in one + other)
    assert all(tally.is_closed for tally in (added.total, *added.runs.values()))
    assert Account.of_record(orjson.loads(orjson.dumps(added.as_record()))).as_record() == (
        added.as_record()
    )


def test_runs_are_forgotten_and_the_total_is_not() -> None:
    """The runs with the latest records are kept, and no older ones."""
    account = Account()
    segment = Account()
    for number in range(MOST_RUNS + 5):
        segment.count(f"run{number:05}", 1_000 + number, "delivered")
    account.add(segment)
    assert len(account.runs) == MOST_RUNS
    assert "run00000" not in account.runs
    later = Account()
    later.count("late", 2_000 + MOST_RUNS + KEPT_MS, "delivered")
    account.add(later)
    assert list(account.runs) == ["late"]
    assert account.total.read == MOST_RUNS + 6


def segment_ids(numbers: range) -> bytes:
    """The ids of a segment."""
    return b"".join(number.to_bytes(ID_BYTES, "big") for number in numbers)


@given(st.integers(0, 40), st.lists(st.integers(0, 15), max_size=12))
def test_what_is_remembered_follows_from_the_segments(most: int, sizes: list[int]) -> None:
    """It is equal for a process that wrote all, and for one that read back the last one."""
    segments, start = [], 0
    for size in sizes:
        segments.append(segment_ids(range(start, start + size)))
        start += size
    forward, backward = Repeats(most), Repeats(most)
    for ids in segments:
        forward.add(ids)
    for ids in reversed(segments):
        if backward.is_full:
            break
        backward.add_older(ids)
    known = {n for n in range(start) if n.to_bytes(ID_BYTES, "big") in forward}
    assert known == {n for n in range(start) if n.to_bytes(ID_BYTES, "big") in backward}
    assert known >= set(range(max(start - most, 0), start))


def test_any_id_has_sixteen_bytes() -> None:
    """That of a crawler is itself, in hex; any other one has a hash."""
    assert short("0" * 31 + "1") == b"\0" * 15 + b"\1"
    assert len(short("someone's own")) == len(short("é" * 900)) == ID_BYTES
