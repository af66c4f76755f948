"""Reports of changes of the throttle rules."""

from __future__ import annotations

from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_frontier.rule_history import RuleChange, changes_between

SLOW, QUICK = ThrottleRule(hits=1, window_s=1), ThrottleRule(hits=5, window_s=1)


def test_every_difference_is_told_once() -> None:
    """The default, rules that are new, other or gone, and blocks; what is the same is not told."""
    before = ThrottleTable(
        default=SLOW, rules={"a.test": SLOW, "b.test": SLOW}, blacklist=frozenset({"c.test"})
    )
    after = ThrottleTable(
        default=QUICK,
        rules={"a.test": QUICK, "d.test": SLOW},
        blacklist=frozenset({"b.test"}),
        mzxid=7,
    )
    told = {one.domain: (one.before, one.after) for one in changes_between(before, after)}
    assert told == {
        "default": (str(SLOW), str(QUICK)),
        "a.test": (str(SLOW), str(QUICK)),
        "b.test": (str(SLOW), "blocked"),
        "c.test": ("blocked", ""),
        "d.test": ("", str(SLOW)),
    }
    assert next(changes_between(before, after)) == RuleChange(7, "default", str(SLOW), str(QUICK))
    assert list(changes_between(after, after)) == []
