"""Further requests that a rendered page may make."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crawling.render.judge import Decision, FurtherRequest, Judge, Rests
from crawlstream.model.egress.render import USUAL_TYPES
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable

OWN = "http://a.com:8080/"
RULE = ThrottleRule(hits=10, window_s=60, render=3)


def judge(**changes: Any) -> Judge:
    """Rules of a page of a.com, whose robots.txt forbids ``/no``."""

    async def robots(url: str) -> bool:
        return not url.endswith("/no")

    values: dict[str, Any] = {
        "origin": "http://a.com:8080",
        "site": "a.com",
        "table": ThrottleTable(default=RULE, blacklist=frozenset({"bad.com"})),
        "types": frozenset(USUAL_TYPES),
        "most": 5,
        "robots": robots,
        "rests": Rests(),
        "may_send": lambda: True,
    }
    return Judge(**values | changes)


@pytest.mark.parametrize(
    ("url", "kind", "headers", "verdict"),
    [
        (OWN, "Script", {}, Decision.SENT),
        (OWN, "XHR", {}, Decision.SENT),
        (OWN, "Document", {}, Decision.SENT),
        (OWN, "Image", {}, Decision.TYPE),
        (OWN, "WebSocket", {}, Decision.TYPE),
        (OWN, "Ping", {}, Decision.TYPE),
        (OWN, "Fetch", {"Sec-Purpose": "prefetch"}, Decision.TYPE),
        (OWN, "XHR", {"accept": "text/event-stream"}, Decision.TYPE),
        ("file:///etc/passwd", "Document", {}, Decision.TYPE),
        ("ftp://a.com/", "XHR", {}, Decision.TYPE),
        ("chrome://version/", "Document", {}, Decision.TYPE),
        ("view-source:http://a.com/", "Document", {}, Decision.TYPE),
        ("data:text/html,a", "Document", {}, Decision.INSIDE),
        ("blob:http://a.com/1", "Script", {}, Decision.INSIDE),
        (f"{OWN}no", "XHR", {}, Decision.ROBOTS),
        ("http://other.com/no", "XHR", {}, Decision.SENT),
        ("http://www.bad.com/", "Script", {}, Decision.BLOCKED),
    ],
)
async def test_each_request_has_a_verdict(
    url: str, kind: str, headers: dict[str, str], verdict: Decision
) -> None:
    """By scheme, type, robots.txt of the page's origin, and what the operator has blocked."""
    assert await judge().verdict(FurtherRequest(url, kind, "GET", headers)) is verdict


@pytest.mark.parametrize(
    "host",
    [
        "bad.com",
        "slow.b.com",
        "Bad.com",
        "b\u00e4d.com",
        "xn--bd-wia.com",
        "a.com:80",
        "a.com:8080",
    ],
)
@pytest.mark.parametrize("form", ["{0}", "{0}.", "x.{0}.", "{0}..", "u@{0}", "u:p@{0}", "%61{0}"])
async def test_no_spelling_of_a_host_passes_what_is_blocked(host: str, form: str) -> None:
    """Sites with a block or a rule of their own, and robots.txt of the page's own origin."""
    slow = ThrottleRule(hits=0, window_s=60)
    blocked = frozenset({"bad.com", "xn--bd-wia.com"})
    table = ThrottleTable(default=RULE, rules={"slow.b.com": slow}, blacklist=blocked)
    name, _, port = host.partition(":")
    url = f"http://{form.format(name)}{':' * bool(port)}{port}/no"
    is_other = host == "a.com:80" and form == "{0}"
    verdict = await judge(table=table).verdict(FurtherRequest(url, "Script"))
    assert verdict.may_leave is is_other


@pytest.mark.parametrize("host", ["127.1", "0x7f.0.0.1", "2130706433", "[::1%25lo]", "[0::1]", ""])
async def test_a_host_that_has_several_readings_is_not_asked(host: str) -> None:
    """A browser reports hosts in one form; anything else is refused."""
    assert await judge().verdict(FurtherRequest(f"http://{host}/", "Script")) is Decision.TYPE


async def test_own_requests_end_at_the_rule_and_all_at_the_setting() -> None:
    """Three to the page's site, whatever its host; five in all."""
    one = judge()
    hosts = ["a.com", "www.a.com", "a.com", "cdn.a.com", *["b.com"] * 4]
    said = [await one.verdict(FurtherRequest(f"http://{host}/", "Script")) for host in hosts]
    sent, capped = Decision.SENT, Decision.CAPPED
    assert said == [sent, sent, sent, capped, sent, sent, capped, capped]
    assert (one.sent, one.own) == (5, 3)


async def test_requisites_obey_the_rules_of_all_sites() -> None:
    """Another site has a limit of its own, and a robots.txt."""
    one = judge(is_strict=True, most=9)
    hosts = ["b.com/", "b.com/no", "www.b.com/", "b.com/", "b.com/", "a.com/", "c.com/"]
    said = [await one.verdict(FurtherRequest(f"http://{host}", "Script")) for host in hosts]
    sent = Decision.SENT
    assert said == [sent, Decision.ROBOTS, sent, sent, Decision.CAPPED, sent, sent]


async def test_what_a_browser_asks_leave_for_costs_two() -> None:
    """A request to another origin with a header or method that is not simple."""
    one = judge()
    headers = {"X-Requested-With": "x"}
    assert await one.verdict(FurtherRequest("http://b.com/", "XHR", "PUT")) is Decision.SENT
    assert (
        await one.verdict(FurtherRequest("http://b.com/", "XHR", "GET", headers)) is Decision.SENT
    )
    assert one.sent == 4
    assert await one.verdict(FurtherRequest("http://b.com/", "XHR", "PUT")) is Decision.CAPPED
    assert await one.verdict(FurtherRequest(OWN, "XHR", "PUT")) is Decision.SENT


async def test_a_credit_is_spent_once() -> None:
    """An allowed request may leave, to its place alone; all else may not, and takes no credit."""
    one = judge()
    assert not one.spend("a.com", 8080)
    await one.verdict(FurtherRequest(OWN, "Script"))
    assert not one.spend("a.com", 443)
    assert one.spend("a.com", 8080)
    assert not one.spend("a.com", 8080)


async def test_a_site_that_refuses_rests() -> None:
    """For a while it is asked for nothing further, by no page of this process; then it is."""
    clock = [100.0]
    rests = Rests(lambda: clock[0])
    assert judge(rests=rests).answered(f"{OWN}x", 429)
    assert not judge(rests=rests).answered("http://b.com/", 503)
    for url in (OWN, "http://b.com/"):
        assert await judge(rests=rests).verdict(FurtherRequest(url, "Script")) is Decision.REFUSED
    assert (
        await judge(rests=rests).verdict(FurtherRequest("http://c.com/", "Script")) is Decision.SENT
    )
    clock[0] += 61
    assert await judge(rests=rests).verdict(FurtherRequest(OWN, "Script")) is Decision.SENT


async def test_nothing_leaves_for_a_page_that_is_lost_or_a_site_that_is_paused() -> None:
    """Neither without word from Redis nor where the rule allows nothing."""
    lost = judge(may_send=lambda: False)
    assert await lost.verdict(FurtherRequest(OWN, "Script")) is Decision.CAPPED
    for rule in (
        ThrottleRule(hits=0, window_s=1),
        ThrottleRule(hits=1, window_s=1, paused_until=int(time.time()) + 3600),
    ):
        table = ThrottleTable(default=RULE, rules={"b.com": rule})
        verdict = await judge(table=table).verdict(FurtherRequest("http://b.com/", "Script"))
        assert verdict is Decision.BLOCKED
