"""The fields of a rule: one list, from which whatever reads, edits and shows rules is made."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from crawlstream.errors import BadTable
from crawlstream.model.request import LATEST
from crawlstream.model.rule_field import RuleField
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule
from crawlstream.throttle.parse import table_of
from crawlstream_cli.rules.throttle import set_rule
from rest_service.v2.cluster import Rule


def _values_of(field: RuleField) -> some.SearchStrategy[Any]:
    if field.is_truth:
        return some.booleans()
    if field.is_whole:
        return some.integers(int(field.least), int(field.most))
    numbers = some.floats(field.off_below or field.least, field.most)
    return some.just(0.0) | numbers if field.off_below else numbers


RULES = some.builds(ThrottleRule, **{one.attribute: _values_of(one) for one in RULE_FIELDS})


@given(RULES)
def test_a_rule_survives_each_way_that_it_takes(rule: ThrottleRule) -> None:
    """Keeps a rule through the node of ZooKeeper and the table in Redis."""
    document = {"domains": {"a.test": rule.named()}}
    default = ThrottleRule(hits=1, window_s=1)
    assert table_of(document, default=default, czxid=1, mzxid=1).rules == {"a.test": rule}
    assert ThrottleRule.of_values(rule.values()) == rule


def test_a_table_of_an_earlier_release_is_read() -> None:
    """Fields that it has not yet are at their defaults."""
    assert ThrottleRule.of_values([5, 60.0]) == ThrottleRule(hits=5, window_s=60)
    assert ThrottleRule.of_applied("5 60000") == ThrottleRule(hits=5, window_s=60)


def test_redis_is_given_whole_numbers() -> None:
    """Seconds are milliseconds, the scale is within the hits, nothing is beyond 32 bits."""
    assert ThrottleRule(hits=7, window_s=1.5, scale=0.5).applied() == "3 1500 1 8"
    huge = ThrottleRule(hits=10**15, window_s=1e9, moderated=False, concurrency=10**12)
    assert huge.applied() == f"{2**31 - 1} {2**31 - 1} 0 {2**31 - 1}"
    assert ThrottleRule(hits=-5, window_s=-1, concurrency=-1).applied() == "0 1 1 1"


def test_a_pause_is_given_to_redis_as_it_is() -> None:
    """A time is cut nowhere; a rule without one reads as it did before there were pauses."""
    paused = ThrottleRule(hits=5, window_s=1, paused_until=LATEST)
    assert paused.applied() == f"5 1000 1 8 {LATEST}"
    assert ThrottleRule.of_applied(paused.applied()) == paused
    assert replace(paused, paused_until=0).applied() == "5 1000 1 8"


@given(RULES)
def test_the_frontier_reads_gentle_beside_render(rule: ThrottleRule) -> None:
    """Reads gentle in thousandths; the version before reads the same limits."""
    rule = replace(rule, scale=1.0)
    applied = ThrottleRule.of_applied(rule.applied())
    assert abs(applied.gentle - rule.gentle) <= 0.0005
    assert applied.render == rule.render
    numbers = rule.applied().split()
    assert len(numbers) <= 6
    before = replace(rule, gentle=0.0).applied().split()
    assert numbers[:5] == [*before, "0"][:5] if rule.gentle else numbers == before


def test_gentle_is_written_so() -> None:
    """A rule without it is written as ever."""
    rule = ThrottleRule(hits=10, window_s=60)
    assert replace(rule, gentle=1.5).applied() == "10 60000 1 8 0 15000030"
    assert replace(rule, gentle=0.01, render=0).applied() == "10 60000 1 8 0 100000"
    assert replace(rule, gentle=0.0).applied() == rule.applied() == "10 60000 1 8"
    assert str(replace(rule, gentle=1.5)) == f"{rule}, gentle 1.5"


@pytest.mark.parametrize(("value", "is_valid"), [(0, True), (0.01, True), (0.009, False)])
def test_gentle_may_be_off(value: float, is_valid: bool) -> None:  # noqa: FBT001  a case
    """0 switches it off for one domain; a number that would be rounded to 0 is refused."""
    (field,) = (one for one in RULE_FIELDS if one.name == "gentle")
    assert field.accepts(value) is is_valid
    assert field.wanted == "0 (off) or a number from 0.01 to 8"


def test_a_rule_in_words() -> None:
    """Compares values, not spellings."""
    assert str(ThrottleRule(hits=20, window_s=60, scale=0.5)) == "10 per 60 s, evenly, 8 at a time"
    bursts = ThrottleRule(hits=1_000_000, window_s=0.5, moderated=False)
    assert str(bursts) == "1000000 per 0.5 s, in bursts, 8 at a time"
    paused = replace(bursts, paused_until=LATEST)
    assert str(paused) == f"{bursts}, paused until 9999-12-31 23:59:59 UTC"
    assert (paused.is_paused, str(replace(bursts, paused_until=1))) == (True, str(bursts))


def test_people_can_set_every_field() -> None:
    """The command has an option for each, REST a field, both with the same bounds and meaning."""
    options = {
        name: parameter.annotation.__metadata__[0]
        for name, parameter in inspect.signature(set_rule).parameters.items()
        if name not in {"domain", "as_json"}
    }
    told = Rule.model_json_schema()["properties"]
    assert list(options) == list(told) == [field.name for field in RULE_FIELDS]
    for field in RULE_FIELDS:
        assert (options[field.name].min, options[field.name].max) == field.bounds
        assert options[field.name].help == told[field.name]["description"] == field.meaning
        value = told[field.name]["anyOf"][0]
        assert (value.get("minimum"), value.get("maximum")) == field.bounds


@pytest.mark.parametrize("field", RULE_FIELDS, ids=lambda field: field.name)
def test_a_value_beyond_its_bounds_is_refused(field: RuleField) -> None:
    """Refuses a value beyond its bounds with field and bounds, which are allowed."""
    rule = ThrottleRule(hits=1, window_s=1)
    least, most = (False, True) if field.is_truth else (field.least, field.most)

    def read(value: object) -> ThrottleRule:
        document = {"domains": {"a.test": {**rule.named(), field.name: value}}}
        return table_of(document, default=rule, czxid=1, mzxid=1).rules["a.test"]

    assert [field.value_of(read(value)) for value in (least, most)] == [least, most]
    for value in (least - 1, most + 1, "1", None, float("nan")):
        with pytest.raises(BadTable, match=rf"a\.test: {field.name} is .*, not"):
            read(value)
