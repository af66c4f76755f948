"""Other words of robots.txt than rules: rates, hours, and parameters that change no page."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawling.robots.rules import RobotsRules, rules_in
from crawling.robots.words import Hours, time_at

US = "oddbot/1.0 (+https://example.com/bot)"
HOUR_S = 3600


def rules(text: str) -> RobotsRules:
    """Return what a file says, which says something."""
    found = rules_in(text.encode())
    assert found
    return found


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("User-agent: oddbot\n{}", True),
        ("user-agent: ODDBOT\n{}\nDisallow: /x", True),
        ("User-agent: oddbot\nDisallow: /x\n\n{}", True),
        ("User-agent: other\nUser-agent: oddbot\n{}", True),
        ("User-agent: oddbot\nFoo: bar\nUser-agent: other\nDisallow: /x\n{}", True),
        ("User-agent: *\n{}", True),
        (
            "User-agent: oddbot\nDisallow: /x\nUser-agent: b\nDisallow:\nUser-agent: oddbot\n{}",
            True,
        ),
        ("User-agent: oddbot\nDisallow: /x\nUser-agent: *\n{}", False),
        ("User-agent: oddbot\nUser-agent: *\nDisallow: /x\nUser-agent: *\n{}", False),
        ("User-agent: odd\n{}", False),
        ("User-agent: oddbot-images\n{}", False),
        ("{}\nUser-agent: oddbot\nDisallow: /x", False),
        ("{}", False),
    ],
)
def test_a_word_is_for_the_agents_of_its_group(text: str, *, is_ours: bool) -> None:
    """Selects groups as rules do: merged, by the whole token, or else those for any."""
    found = rules(text.format("Request-rate: 1/7"))
    assert found.crawl_delay_ms(US) == (7000 if is_ours else 0)
    hours = rules(text.format("Visit-time: 0600-0845")).words_for(US).hours
    assert hours == ([Hours(6 * HOUR_S, 9900)] if is_ours else [])


def test_what_is_the_same_for_everybody_may_stand_anywhere() -> None:
    """Takes needless parameters from all groups, and from outside of any."""
    text = "Clean-param: a\nUser-agent: other\nClean-param: b\nDisallow: /x"
    assert rules(text).words.cleaned("http://a.example/p?a=1&b=2&c=3") == "http://a.example/p?c=3"


@pytest.mark.parametrize(
    ("rates", "pause_ms"),
    [
        (["1/10s"], 10_000),
        (["1/1m"], 60_000),
        (["10/1m"], 6_000),
        (["3/1"], 334),
        (["1/30"], 30_000),
        (["100/24H"], 300_000),
        (["1 / 5 s"], 5_000),
        (["1/10s 1800-1900"], 10_000),
        (["10/1m", "1/20s 0000-0600", "5/1s"], 20_000),
        (["1/1d"], 300_000),
        (["1/0"], 0),
        (["0/5"], 0),
        (["-1/5"], 0),
        (["1/5x"], 0),
        (["1"], 0),
        (["1/٣"], 0),
        ([f"1/{'9' * 20}"], 0),
        ([""], 0),
    ],
)
def test_the_slowest_rate_is_kept_at_any_time(rates: list[str], pause_ms: int) -> None:
    """Is a pause as long as its Crawl-delay may be; what cannot be read says nothing."""
    lines = "".join(f"Request-rate: {rate} # so\n" for rate in rates)
    assert rules(f"User-agent: *\n{lines}").crawl_delay_ms(US) == pause_ms
    both = rules(f"User-agent: *\nCrawl-delay: 7\n{lines}")
    assert both.crawl_delay_ms(US) == max(pause_ms, 7000)


@pytest.mark.parametrize(
    ("lines", "hours"),
    [
        (["0600-0845"], [(6, 2.75)]),
        (["0100 - 0800"], [(1, 7)]),
        (["06:00-08:45"], [(6, 2.75)]),
        (["2200-0400"], [(22, 6)]),
        (["0000-2400"], [(0, 24)]),
        (["2400-0100"], [(0, 1)]),
        (["0000-0000"], []),
        (["0600-2500"], []),
        (["0660-0700"], []),
        (["600-845"], []),
        (["0600-08450"], []),
        (["٠٦٠٠-0845"], []),
        (["0100-0200", "rubbish", "0300-0400"], [(1, 1), (3, 1)]),
    ],
)
def test_hours_are_read_or_passed_over(lines: list[str], hours: list[tuple[int, float]]) -> None:
    """Has several, and one over midnight; an empty one is none."""
    text = "User-agent: *\n" + "".join(f"Visit-time: {line}\n" for line in lines)
    read = [
        (each.begin_s / HOUR_S, each.length_s / HOUR_S) for each in rules(text).words_for(US).hours
    ]
    assert read == hours


MINUTE_S, DAY_S = 60, 86_400
_minutes = st.integers(0, 1439).map(lambda minute: minute * MINUTE_S)
_hours = st.builds(Hours, _minutes, st.integers(1, 1440).map(lambda minutes: minutes * MINUTE_S))


@given(st.lists(_hours, max_size=3), st.integers(0, 2 * 1440))
@example([Hours(22 * HOUR_S, 6 * HOUR_S)], 23 * 60)
@example([Hours(0, DAY_S)], 1439)
def test_a_site_is_visited_in_its_hours_only(hours: list[Hours], minute: int) -> None:
    """Agrees with a clock that is looked at each minute, for waiting and for staying."""

    def is_open(at_s: int) -> bool:
        return not hours or any((at_s - each.begin_s) % DAY_S < each.length_s for each in hours)

    now_s = minute * MINUTE_S
    wait_s, stay_s = time_at(hours, now_s)
    assert (wait_s == 0) is is_open(now_s)
    assert all(not is_open(at_s) for at_s in range(now_s, now_s + int(wait_s), MINUTE_S))
    assert is_open(now_s + int(wait_s))
    if wait_s == 0:
        end_s = now_s + int(min(stay_s, DAY_S))
        assert stay_s > 0
        assert all(is_open(at_s) for at_s in range(now_s, end_s, MINUTE_S))
        assert stay_s == math.inf or any(
            end_s % DAY_S == (h.begin_s + h.length_s) % DAY_S for h in hours
        )


@pytest.mark.parametrize(
    ("line", "url", "clean"),
    [
        (
            "ref /some_dir/get_book.pl",
            "/some_dir/get_book.pl?ref=1&id=2",
            "/some_dir/get_book.pl?id=2",
        ),
        ("ref /some_dir/", "/other/?ref=1", None),
        ("sid&sort /forum/*.php", "/forum/a/show.php?sort=1&t=2&sid=3", "/forum/a/show.php?t=2"),
        ("sid&sort /forum/*.php", "/forum/show.html?sid=3", None),
        ("sid", "/?sid=1", "/"),
        ("sid", "/a?sid", "/a"),
        ("sid", "/a?b=2&sid=1&a=1&sid=", "/a?b=2&a=1"),
        ("sid", "/a?SID=1&sid2=1", None),
        ("sid", "/a?x=sid=1", None),
        ("sid", "/a", None),
        ("sid", "/a?", None),
        ("sid", "/a?b&sid=1#?sid=2", "/a?b#?sid=2"),
        ("s&t /é", "/%C3%A9?s=1", "/%C3%A9"),
        ("sid /a*b*c", "/aXcXb?sid=1", None),
        (f"sid /{'a' * 500}", f"/{'a' * 500}?sid=1", None),
        ("&", "/a?=1&b", None),
        ("", "/a?=1", None),
    ],
)
def test_parameters_that_change_no_page_are_left_out(
    line: str, url: str, clean: str | None
) -> None:
    """Knows them by whole names, in their case, below a path; the others stay in their order."""
    words, site = (
        rules(f"User-agent: *\nDisallow: /x\nClean-param: {line}").words,
        "http://a.example",
    )
    assert words.cleaned(site + url) == site + (url if clean is None else clean)


_names = st.sampled_from(["a", "b", "sid", ""])
_parts = st.lists(st.tuples(_names, st.sampled_from(["", "=", "=1"])).map("".join), max_size=4)


@given(_parts, st.lists(_names, min_size=1, max_size=3))
def test_a_clean_url_is_clean(parts: list[str], names: list[str]) -> None:
    """Takes one step, and only from the parameters."""
    words = rules(f"User-agent: *\nDisallow: /x\nClean-param: {'&'.join(names)}").words
    clean = words.cleaned("http://a.example/p?" + "&".join(parts))
    assert words.cleaned(clean) == clean
    kept = [part for part in parts if part.partition("=")[0] not in {*names} - {""}]
    assert clean.partition("?")[2] == "&".join(kept)
