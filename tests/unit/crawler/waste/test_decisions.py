"""Decisions on links by the verdicts on their families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from crawling.quality.address_parts import host_hash
from crawling.waste.decisions import LinkDecision, LinkJudge, decide
from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.persons import PersonWord
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.verdicts import SiteVerdicts, verdicts_of

MAIN = "www.a.example"
LAST, REFUSED = FamilyState.LAST, FamilyState.REFUSED


def _verdicts(
    states: Mapping[str, FamilyState] | None = None, dropped: Mapping[str, int] | None = None
) -> SiteVerdicts:
    return SiteVerdicts(
        host_hash(MAIN),
        {family_hash(name): state for name, state in (states or {}).items()},
        {family_hash(name): equal for name, equal in (dropped or {}).items()},
    )


def _decide(rest: str, verdicts: SiteVerdicts | None, host: str = MAIN) -> LinkDecision:
    return decide(f"http://{host}/{rest}", verdicts, MAIN)


def _shares(found: Mapping[str, int]) -> dict[str, float]:
    return {name: count / sum(found.values()) for name, count in found.items()}


def test_links_of_a_page_that_does_not_exist_are_put_last() -> None:
    """Puts links of a page that does not exist last, unless one of their families is allowed."""
    url, allowed = f"http://{MAIN}/a/b", {family_hash("/a/*"): PersonWord.ALLOW}
    for verdicts, is_last in (
        (None, True),
        (_verdicts({"?c": LAST}), True),
        (replace(_verdicts(), by_persons=allowed), False),
    ):
        assert decide(url, verdicts, MAIN, is_last=True) == LinkDecision(url, is_last=is_last)


@pytest.mark.parametrize(
    ("rest", "clean"),
    [
        ("p?sid=1", "p"),
        ("p?a=1&sid=2&b=3", "p?a=1&b=3"),
        ("p?sid=1&sid=2&view=3", "p"),
        ("p?sid", "p?sid"),
        ("p?sids=1", "p?sids=1"),
        ("sid=1", "sid=1"),
    ],
)
def test_parameters_that_do_not_matter_are_taken_off(rest: str, clean: str) -> None:
    """All others stay as they are written."""
    verdicts = _verdicts(dropped={"?sid": 20, "?view": 20})
    assert _decide(rest, verdicts) == LinkDecision(f"http://{MAIN}/{clean}")


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://x.a.example/p?a=1", "http://www.a.example/p?a=1"),
        ("https://x.a.example:8080/p", "https://www.a.example:8080/p"),
        ("http://a.example/p", "http://a.example/p"),
    ],
)
def test_a_host_that_does_not_matter_becomes_the_main_one(url: str, clean: str) -> None:
    """Scheme and port stay; a host that differs by www. only is the main one."""
    verdicts = _verdicts(dropped={"host": 20})
    assert decide(url, verdicts, MAIN).url == clean
    assert decide(url, verdicts, "").url == url


@pytest.mark.parametrize(("equal", "one_of"), [(16, 32), (31, 32), (32, 128), (128, 512)])
def test_some_links_keep_what_does_not_matter(equal: int, one_of: int) -> None:
    """They become rarer as more pairs of pages agree, and are always the same ones."""
    verdicts, number = _verdicts(dropped={"?sid": equal}), 64 * one_of
    links = [f"p{n}?sid={n}" for n in range(number)]
    kept = [rest for rest in links if _decide(rest, verdicts).url.endswith(rest)]
    assert 32 <= len(kept) <= 96
    assert kept == [rest for rest in links if _decide(rest, verdicts).url.endswith(rest)]


@pytest.mark.parametrize(
    ("family", "rest", "host", "reason"),
    [
        ("?sort", "c/1?sort={}", MAIN, "guard_parameter"),
        ("/a/#", "a/{}", MAIN, "guard_path"),
        ("host", "a/{}", "x.a.example", "guard_host"),
    ],
)
def test_one_link_of_64_of_a_refused_family_is_put_last(
    family: str, rest: str, host: str, reason: str
) -> None:
    """Puts one refused link of 64 last, and counts the others by the kind of their family."""
    verdicts, found = _verdicts({family: REFUSED}), Counter[str]()
    for n in range(6400):
        decision = _decide(rest.format(n), verdicts, host)
        assert decision.is_last != bool(decision.refused)
        found[decision.refused or "last"] += 1
    assert 50 <= found["last"] <= 150
    assert set(found) == {"last", reason}


def test_the_worst_family_of_a_link_decides() -> None:
    """A family that is put last, or refused, is so in any company."""
    verdicts = _verdicts({"?sort": LAST, "?view": REFUSED})
    assert _decide("c?a=1&sort=2", verdicts).is_last
    assert _decide("c?view=1&sort=2", verdicts).refused
    assert _decide("c?a=1", verdicts) == LinkDecision(f"http://{MAIN}/c?a=1")


def test_a_dropped_parameter_makes_no_family() -> None:
    """Its pages go on without it, whatever was thought of it before."""
    verdicts = _verdicts({"?sid": REFUSED, "/p/#": LAST}, {"?sid": 16})
    assert _decide("p/1?sid=2", verdicts) == LinkDecision(f"http://{MAIN}/p/1", is_last=True)


@pytest.mark.parametrize("rest", ["find?q=x", "find?page=2&search=x", "?keywords"])
def test_searches_by_their_usual_names_are_put_last(rest: str) -> None:
    """Their pages are without number, and nothing in their text shows it."""
    for verdicts in (None, _verdicts({"/p/#": LAST})):
        assert _decide(rest, verdicts) == LinkDecision(f"http://{MAIN}/{rest}", is_last=True)


def test_links_of_a_site_without_verdicts_are_followed() -> None:
    """Their URL is the same object: it is not built again."""
    url = f"http://{MAIN}/c?sort=2"
    assert decide(url, None, "") == LinkDecision(url)


def test_links_without_a_query_need_no_decision_where_nothing_is_decided() -> None:
    """Links with one may be searches; a verdict or an error page may put any link last."""

    def judge(verdicts: SiteVerdicts | None = None, *, is_error: bool = False) -> LinkJudge:
        return LinkJudge(lambda _: True, verdicts, MAIN, None, is_error=is_error)

    plain, search = [f"http://{MAIN}/p/{n}" for n in range(3)], f"http://{MAIN}/p?q=x"
    assert judge().follows_all(plain)
    assert [judge()(url) for url in plain] == [LinkDecision(url) for url in plain]
    assert not judge().follows_all([*plain, search])
    assert judge()(search).is_last
    for careful in (judge(_verdicts({"/p/#": LAST})), judge(is_error=True)):
        assert not careful.follows_all(plain)
        assert all(careful(url).is_last for url in plain)


def test_persons_refuse_all_links_of_a_family_and_allow_searches() -> None:
    """Prefers manual verdicts: refuses all links of a family, and allows searches."""
    path, words = family_hash("/c/#"), {family_hash("?q"): "allow", family_hash("/c/#"): "refuse"}
    verdicts = SiteVerdicts(None, {path: REFUSED}, {}, words)
    found = {_decide(f"c/{n}", verdicts).refused for n in range(300)}
    assert found == {"guard_path"}
    assert not _decide("find?q=1", verdicts).is_last
    assert _decide("find?query=1", verdicts).is_last
    sketch = Sketch()
    sort = Family(key=family_hash("?sort"), counts=YieldCounts(), state=REFUSED)
    sid = Family(key=family_hash("?sid"), counts=YieldCounts(), eq=20, is_dropped=True)
    sketch.families = FamilyTable([sort, sid])
    learned = verdicts_of(sketch, {sid.key: "allow"})
    assert learned is not None
    assert (learned.states, learned.dropped) == ({sort.key: REFUSED}, {})
    assert verdicts_of(Sketch()) is None
