"""Quality of items: counted by field, judged by what is expected, told to people and Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from crawlstream.errors import ConfigError
from pipeline_service.commands.quality import print_fields, quality_of
from pipeline_service.metrics import begin_runs, forget_runs, note_run, note_waiting
from pipeline_service.records.account import MOST_JUDGED, Account, RecordTally, summed
from pipeline_service.spec.quality.counts import MOST_FIELDS, MOST_RULES, QualityCounts
from pipeline_service.spec.quality.expect import ItemJudge, read_expect

ERRORS = st.lists(st.tuples(st.sampled_from("abc$"), st.sampled_from("xyz")), max_size=4)
ITEMS = st.lists(st.tuples(st.dictionaries(st.sampled_from("abc"), st.none() | st.text()), ERRORS))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, ITEMS)
def test_quality_adds_up_whoever_counts(
    one: list[tuple[dict[str, Any], list[tuple[str, str]]]],
    other: list[tuple[dict[str, Any], list[tuple[str, str]]]],
) -> None:
    """Adds up quality of several processes, and reads it back from the store."""

    def counted(items: list[tuple[dict[str, Any], list[tuple[str, str]]]]) -> QualityCounts:
        quality = QualityCounts()
        for item, errors in items:
            quality.count(item, "abc", errors)
        return quality

    added = counted(one)
    added.add(counted(other))
    assert added.as_record() == counted(one + other).as_record()
    assert QualityCounts.of_record(orjson.loads(orjson.dumps(added.as_record()))) == added
    for field in "abc":
        if count := added.fields.get(field):
            assert 0 <= count.valid <= count.present <= added.items


def quality(*items: dict[str, Any], errors: tuple[tuple[str, str], ...] = ()) -> QualityCounts:
    """Return the counts of items with a name and a price; the last one has the errors."""
    made = QualityCounts()
    for number, item in enumerate(items, 1):
        made.count(item, ("name", "price"), errors if number == len(items) else ())
    return made


def test_a_field_is_there_if_it_says_something() -> None:
    """Nested ones as well; null and what is empty say nothing."""
    made = QualityCounts()
    values: list[Any] = [None, "", [], {}, 0, False, "x", {"b": 1}]
    for value in values:
        made.count({"a": value}, ("a", "a.b"), ())
    assert (made.fields["a"].present, made.fields["a.b"].present) == (4, 1)


def test_counts_are_bounded_whatever_schemas_and_rules_there_are() -> None:
    """A rule too many counts as another one, and a field too many not at all."""
    made = QualityCounts()
    for number in range(2 * MOST_RULES):
        made.count({}, ("a",), [("a", f"rule{number}")])
    assert len(made.fields["a"].errors) == MOST_RULES + 1
    assert made.fields["a"].errors.total() == 2 * MOST_RULES
    for number in range(2 * MOST_FIELDS):
        other = QualityCounts()
        other.count({}, (f"f{number}",), ())
        made.add(other)
    assert len(made.fields) == MOST_FIELDS + 1


def test_a_run_is_judged_by_what_is_expected() -> None:
    """Each bound is reported with its value; the score covers the required fields."""
    expect = read_expect(
        {
            "items": {"min": 5},
            "name": {"present": 1, "valid": 1},
            "price": {"present": 0.8, "valid": 0.8, "tolerance": 0.05},
        },
        "expect",
    )
    items = [{"name": "a", "price": 1}] * 3
    made = quality(*items, {"name": "b", "price": -1}, errors=(("price", "minimum"),))
    told = ItemJudge(expect, frozenset({"name", "price"})).record(made, pages=1)
    assert told == {
        "items": 4,
        "fields": {
            "name": {"present": 1.0, "valid": 1.0},
            "price": {"present": 1.0, "valid": 0.75, "errors": {"minimum": 1}},
        },
        "score": 0.875,
        "expect": [
            {"items.min": 5, "value": 4, "met": False},
            {"name.present": 1.0, "value": 1.0, "met": True},
            {"name.valid": 1.0, "value": 1.0, "met": True},
            {"price.present": 0.8, "value": 1.0, "met": True},
            {"price.valid": 0.8, "value": 0.75, "met": True},
        ],
        "ok": False,
    }
    assert ItemJudge(expect).record(quality(*items), pages=1)["score"] == 1.0


def test_of_a_run_without_items_their_number_alone_is_judged() -> None:
    """There is no share of nothing; where nothing is counted or expected, nothing is reported."""
    expect = read_expect({"items": {"min": 1}, "name": {"valid": 1}}, "expect")
    told = ItemJudge(expect).record(QualityCounts(), pages=1)
    assert told["expect"] == [{"items.min": 1, "value": 0, "met": False}]
    assert "score" not in told
    assert ItemJudge(expect[1:]).record(QualityCounts(), pages=1) == {"items": 0, "fields": {}}
    assert ItemJudge().record(QualityCounts(), pages=1) == {}
    assert ItemJudge(expect).record(QualityCounts(), pages=0) == {}, "it is about other pages"
    filtered = Counter({"where.url": 3, "product": 2})
    assert RecordTally(read=9, repeats=1, filtered=filtered).wanted == 5


def test_what_is_forgotten_in_one_partition_is_not_told_of_the_others() -> None:
    """Shares of a part of the items would look like those of all."""
    many, few = Account(), Account()
    for number in range(MOST_JUDGED + 1):
        many.count(f"{number}", 1_000 + number, "delivered", quality=quality({"name": "x"}))
    few.count("0", 9_000, "delivered", quality=quality({"name": "x"}))
    kept = Account.of_record(orjson.loads(orjson.dumps(summed([many]).as_record())))
    whole = summed([kept, few])
    assert ItemJudge().record(whole.runs["0"].quality, pages=1) == {}
    assert ItemJudge().record(whole.runs[f"{MOST_JUDGED}"].quality, pages=1)["items"] == 1
    assert whole.total.quality.items == MOST_JUDGED + 2


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"price": 1}, "expect: expected a table, such as price"),
        ({"price": {"min": 1}}, "expect.price: unknown key 'min'; known: present, valid, toler"),
        ({"price": {"tolerance": 0.1}}, "expect.price: expected present or valid"),
        ({"price": {"valid": 98}}, "expect.price.valid: expected a share from 0 to 1"),
        ({"items": {"min": 0.5}}, "expect.items.min: expected an integer from 1 on"),
        ({f"f{n}": {"valid": 1} for n in range(101)}, "expected 100 fields at most"),
    ],
)
def test_an_expectation_that_cannot_be_meant_is_refused(table: object, sentence: str) -> None:
    """Refuses a wrong expectation by its key."""
    with pytest.raises(ConfigError, match=sentence):
        read_expect(table, "expect")


def test_people_see_which_field_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """The worst first, with its rules, and what was expected; nothing of those that do not."""
    expect = read_expect({"items": {"min": 3}, "price": {"valid": 0.9}}, "expect")
    made = quality({"name": "x", "price": 1}, {"name": 3}, errors=(("name", "type"),))
    tally = RecordTally(read=2, quality=made)
    live = quality_of(tally, {})
    assert set(live) == {"items", "fields"}, "nothing is judged before it is stored"
    told = quality_of(tally, ItemJudge(expect).record(made, pages=1))
    print_fields([{"crawlid": "spring", "run": 1, **told}])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "crawlid run field present valid expected errors",
        "spring 1 items 2 min 3: missed",
        "spring 1 name 100.0% 50.0% type 1",
        "spring 1 price 50.0% 50.0% valid 90.0%: missed",
    ]
    print_fields(
        [
            {
                "crawlid": "spring",
                "run": 1,
                **quality_of(RecordTally(read=1, quality=quality({})), {}),
            }
        ]
    )
    assert "No item has an invalid field." in capsys.readouterr().out


def shown(name: str, **labels: str) -> float | None:
    """Return a metric as Prometheus reads it."""
    return REGISTRY.get_sample_value(f"crawlstream_pipeline_{name}", {"pipeline": "p", **labels})


def test_prometheus_is_told_of_the_last_run() -> None:
    """The counters begin at 0, or an alarm would not see the first run; what is gone is gone."""
    begin_runs("p")
    assert shown("runs_judged_total", outcome="missed") == 0
    judge = ItemJudge(read_expect({"name": {"valid": 1}}, "expect"))
    note_run("p", judge.record(quality({"name": "x"}, {}), pages=1), is_complete=False)
    note_waiting("p", None)
    assert shown("runs_total", outcome="incomplete") == 1
    assert shown("runs_judged_total", outcome="missed") == 1
    assert (shown("items"), shown("score")) == (2, 0.25)
    assert shown("field_valid_ratio", field="name") == 0.5
    other = QualityCounts()
    other.count({"sku": 1}, ("sku",), ())
    note_run("p", judge.record(other, pages=1), is_complete=True)
    assert shown("field_valid_ratio", field="name") is None
    assert shown("field_present_ratio", field="sku") == 1
    note_waiting("p", 1)
    assert (shown("run_waiting_seconds") or 0) > 1_000_000
    forget_runs("p")
    assert shown("run_waiting_seconds") is None
    assert shown("items") is None
