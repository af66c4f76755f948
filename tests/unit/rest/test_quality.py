"""The quality of items on screens, whatever an event says of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rest_service.dashboard.quality import by_field, missed

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["present", "valid", "errors", "met", "value", "a.min", "b"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_a_field_is_followed_over_the_runs() -> None:
    """Field by field, the latest run first; the most frequent rule first."""
    new = {"run": 2, "fields": {"b": {"valid": 1}, "a": {"present": 0.5, "valid": 0.25}}}
    old = {"run": 1, "fields": {"a": {"valid": 1.0, "errors": {"x": 1, "y": 3, "z": "no"}}}}
    found = by_field([new, old, {"run": 0}])
    assert [(one.field, one.run["run"], one.present, one.valid) for one in found] == [
        ("a", 2, 0.5, 0.25),
        ("a", 1, None, 1.0),
        ("b", 2, None, 1),
    ]
    assert found[1].errors == [("y", 3), ("x", 1)]


def test_what_a_run_has_missed_is_told_with_its_value() -> None:
    """Numbers of items as such, shares as shares; expectations that are met are left out."""
    expect = [
        {"items.min": 1000, "value": 1, "met": False},
        {"price.valid": 1.0, "value": 0.5, "met": False},
        {"name.valid": 1.0, "value": 1.0, "met": True},
    ]
    assert missed({"expect": expect}) == ["items.min 1 of 1,000", "price.valid 50.0% of 100.0%"]


@given(ANY, ANY)
def test_an_event_of_another_form_breaks_no_screen(fields: object, expect: object) -> None:
    """It is shown as far as it can be read."""
    run = {"run": 1, "fields": fields, "expect": expect}
    for one in by_field([run]):
        assert isinstance(one.field, str)
    assert all(isinstance(each, str) for each in missed(run))
