"""Priority rules of a crawl request: what is wrong is named by the rule, with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import CrawlRequest
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.wire.requests import decode


def _request(*rules: dict[str, Any]) -> CrawlRequest:
    fields = {"appid": "app", "crawlid": "job", "url": "http://a.example/", "priorities": rules}
    request = decode(orjson.dumps(fields))
    assert isinstance(request, CrawlRequest)
    return request


def test_rules_are_kept_in_one_spelling() -> None:
    """Hosts as links have them, extensions without dot and capitals, nulls as if absent."""
    rules = _request(
        {"hosts": ["*.München.example", "xn--mnchen-3ya.example"], "add": 0},
        {"types": [".PDF", "tar.gz"], "match": None, "add": None, "drop": True},
        {"text": "(?i)next", "depth": [2, 2], "add": -1000, "drop": False},
    ).priorities
    assert rules == (
        PriorityRule(hosts=("xn--mnchen-3ya.example",), add=0),
        PriorityRule(types=("pdf", "tar.gz"), drop=True),
        PriorityRule(text="(?i)next", depth=(2, 2), add=-1000),
    )


_GOOD = {"match": "/a", "add": 10}
_LONG = [{"match": f"([^/]{{1,30}}/){{30}}{number}", "add": 10} for number in range(32)]


@pytest.mark.parametrize(
    ("rules", "problem", "reason"),
    [
        ([_GOOD, {"match": "/b"}], '[1]: has no consequence: give it "add": 200 or "drop"', ""),
        ([_GOOD, {"drop": False}], '[1]: has no consequence: give it "add": 200 or "drop"', ""),
        ([{"add": 10, "drop": True}], "[0]: has both `add` and `drop`: leave out one", ""),
        ([_GOOD, {"add": 205}], "[1].add: must be a multiple of 10: use 200 or 210", ""),
        ([{"add": -5}], "[0].add: must be a multiple of 10: use -10 or 0", ""),
        ([{"add": 1010}], "[0].add: must be from -1000 to 1000", ""),
        ([{"depth": [5, 2], "add": 10}], "[0].depth: ends before it begins: write [2, 5]", ""),
        ([{"hosts": ["a b"], "add": 10}], "[0].hosts[0]: ", ""),
        ([{"add": 10 * n} for n in range(9)], ": has 9 different values of `add`; use at m", ""),
        ([_GOOD, {"match": "(", "add": 10}], "[1].match: RE2 cannot compile it", "bad_regex"),
        ([{"text": "(?=a)", "add": 10}], "[0].text: RE2 cannot compile it", "bad_regex"),
        (_LONG, ": the expressions of `match` need more than 256 KiB", "bad_regex"),
    ],
)
def test_a_refusal_names_the_rule_and_the_remedy(
    rules: Sequence[dict[str, Any]], problem: str, reason: str
) -> None:
    """The place of the rule is in the path, and the sentence says what to write."""
    with pytest.raises(InvalidRequest) as refusal:
        _request(*rules)
    assert refusal.value.problems[0].startswith(f"$.priorities{problem}")
    assert refusal.value.reason == (reason or "bad_request")


def test_eight_different_changes_are_allowed() -> None:
    """Each of them may be used by several rules."""
    rules = [{"match": f"/{n}", "add": 10 * (n % 8)} for n in range(30)]
    assert len(_request(*rules, {"match": "/x", "drop": True}).priorities or ()) == 31
