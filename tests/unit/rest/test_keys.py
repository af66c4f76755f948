"""API keys: their forms, their shares, and what guessing them costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from crawlstream.boot.api_keys import ApiKey
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.model.recurring.schedule import Do
from crawlstream.model.request import RequestLimits, ScheduleRequest
from rest_service.http.access import Client, Guesses, RateLimiter, Role
from rest_service.http.envelope import RequestRefused
from rest_service.http.fair_semaphore import FairSemaphore
from rest_service.http.head import Heads
from rest_service.http.hiding import HIDDEN, hide
from rest_service.http.peers import peer_of
from rest_service.http.quota import Quota
from rest_service.v1 import _check
from rest_service.v2.reading import RecordFilter, wanted_by

SECRET = "s" * 20


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("read:", {}),
        ("submit@shop:", {"appids": {"shop"}}),
        ("submit@shop+news:", {"appids": {"shop", "news"}}),
        ("submit@a%2Cb%3Ac+d%2Be:", {"appids": {"a,b:c", "d+e"}}),
        ("operate/name=alice:", {"name": "alice"}),
        ("read@shop/rate=0.5/waiting=100:", {"appids": {"shop"}, "rate": 0.5, "waiting": 100}),
        ("operate@shop/schedules=0:", {"appids": {"shop"}, "schedules": 0}),
    ],
)
def test_keys_have_one_form(text: str, fields: dict[str, Any]) -> None:
    """Role, applications, options, secret; what has only role and secret means what it meant."""
    secret = "x:/@+=y" * 3
    (key,) = load_settings(CRAWLSTREAM_API_KEYS=text + secret).api_keys
    told = key.model_dump(exclude_defaults=True)
    assert told == {"role": text.partition("@")[0].partition("/")[0].strip(":"), **fields} | {
        "secret": secret
    }


@pytest.mark.parametrize(
    "text",
    [
        *("submit@:", "submit@ab:", "submit@shop+:", "submit@shop@news:", "@shop:"),
        *("read/color=red:", "read/rate=0:", "read/waiting=0:", "read/waiting=x:"),
        "read/schedules=-1:",
        *("read/name=a b:", "read/name=a/name=b:", "read/role=operate:", "read/secret=x:"),
    ],
)
def test_keys_of_other_forms_are_refused_without_their_secret(text: str) -> None:
    """A key that is misspelt opens nothing, and the error does not contain it."""
    with pytest.raises(ConfigError, match="API_KEYS") as refused:
        load_settings(CRAWLSTREAM_API_KEYS=f"read:{SECRET},{text}{SECRET}")
    assert SECRET not in str(refused.value)


def test_a_key_has_a_rate_of_its_own() -> None:
    """A key has a rate of its own, or the general one."""
    limiter = RateLimiter(100, clock=Clock())
    assert [limiter.admit("slow", 1) for _ in range(3)] == [True, True, False]
    assert all(limiter.admit("other") for _ in range(200))
    assert not limiter.admit("other")


def test_guessing_is_slow() -> None:
    """Accepts some wrong keys at once, then one each second; the right key is not found faster."""
    clock = Clock()
    guesses = Guesses(clock=clock)
    known, new = (Client(name, Role.READ, "192.0.2.1") for name in ("known", "new"))
    guesses.worked(known)
    for _ in range(10):
        guesses.failed("192.0.2.1")
    with pytest.raises(RequestRefused, match="wrong API keys"):
        guesses.failed("192.0.2.1")
    with pytest.raises(RequestRefused, match="wrong API keys"):
        guesses.worked(new)
    guesses.worked(known)
    guesses.failed("192.0.2.2")
    clock.now = 1
    guesses.worked(new)
    guesses.failed("192.0.2.1")
    with pytest.raises(RequestRefused, match="wrong API keys"):
        guesses.failed("192.0.2.1")


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_a_network_of_one_client_is_one_peer(address: str, peer: str) -> None:
    """All addresses of a /64 have one share together."""
    assert peer_of(address) == peer


def _quota(
    pending: dict[str, int], clock: Clock, schedules: Mapping[tuple[str, str], int] | None = None
) -> Quota:
    seeds = schedules or {}

    async def crawls(appid: str | None) -> Any:
        return [SimpleNamespace(pending=n) for name, n in pending.items() if appid in {None, name}]

    async def shared(_name: Any, ask: Any) -> Any:
        return await ask()

    async def one(appid: str, name: str) -> Any:
        count = seeds.get((appid, name))
        return None if count is None else SimpleNamespace(schedule=_schedule(count))

    async def names(appids: frozenset[str]) -> set[tuple[str, str]]:
        return {one for one in seeds if not appids or one[0] in appids}

    frontier = SimpleNamespace(
        queries=SimpleNamespace(crawls=crawls), schedules=SimpleNamespace(one=one, names=names)
    )
    return Quota(frontier, SimpleNamespace(shared=shared), clock=clock)  # type: ignore[arg-type]


def _schedule(seeds: int, seeds_from: str | None = None) -> Any:
    return SimpleNamespace(seeds=["u"] * seeds, seeds_from=seeds_from)


def _set(name: str, seeds: int = 1, appid: str = "shop") -> ScheduleRequest:
    return ScheduleRequest(uuid="u", appid=appid, name=name, schedule=_schedule(seeds))


async def test_a_key_may_have_so_many_pages_waiting() -> None:
    """Counts pages of its applications, and those it has fed just now; nothing without a quota."""
    clock, pending = Clock(), {"shop": 5, "news": 100}
    quota = _quota(pending, clock)
    bound = Client("bound", Role.SUBMIT, appids=frozenset({"shop"}), waiting=10)
    await quota.admit(bound, 3)
    with pytest.raises(RequestRefused, match="8 pages are waiting") as refused:
        await quota.admit(bound, 3)
    assert refused.value.status == 429
    await quota.admit(bound, 2)
    clock.now = 6
    await quota.admit(bound, 5)
    with pytest.raises(RequestRefused, match="105 pages are waiting"):
        await quota.admit(Client("all", Role.SUBMIT, waiting=10), 1)
    await quota.admit(Client("free", Role.SUBMIT), 10**6)


async def test_a_key_may_have_so_many_schedules() -> None:
    """Counts schedules of its applications and those that it has just set; replacing is free."""
    clock = Clock()
    known = {("shop", "a"): 1, ("shop", "b"): 1, **{("news", str(n)): 1 for n in range(9)}}
    quota = _quota({}, clock, known)
    bound = Client("bound", Role.OPERATE, appids=frozenset({"shop"}), schedules=3)
    for name in ("a", "c", "c"):
        await quota.admit_schedule(bound, _set(name))
    with pytest.raises(RequestRefused, match=r"3 schedules; .* API key is 3") as full:
        await quota.admit_schedule(bound, _set("d"))
    assert (full.value.status, full.value.details["code"]) == (409, "too_many_schedules")
    others: list[Do] = ["remove", "fire", "resume", "pause", "show"]
    for do in others:
        await quota.admit_schedule(bound, replace(_set("d"), do=do, schedule=None))
    clock.now = 6
    await quota.admit_schedule(bound, _set("d"))
    with pytest.raises(RequestRefused, match="there are 11 schedules"):
        await quota.admit_schedule(Client("all", Role.OPERATE, schedules=10), _set("e"))
    await quota.admit_schedule(Client("free", Role.OPERATE), _set("e"))


async def test_schedules_count_as_the_seeds_of_one_firing() -> None:
    """Set, resumed or fired by a key with a quota of waiting pages."""
    key = Client("key", Role.OPERATE, waiting=5)
    quota = _quota({}, Clock(), {("shop", "many"): 6})
    feeding: list[Do] = ["resume", "fire"]
    for do in feeding:
        with pytest.raises(RequestRefused, match="is 5"):
            await quota.admit_schedule(key, replace(_set("many"), do=do, schedule=None))
    with pytest.raises(RequestRefused, match="is 5"):
        await quota.admit_schedule(key, _set("new", 6))
    told = replace(_set("new"), schedule=_schedule(0, "file:///x"))
    with pytest.raises(RequestRefused, match="any number"):
        await quota.admit_schedule(key, told)
    await quota.admit_schedule(key, _set("new", 5))


@pytest.mark.parametrize("share", [{"waiting": 1}, {"schedules": 0}])
async def test_a_quota_holds_for_schedules_that_are_fed(share: Any) -> None:
    """``/feed`` has the same quota, also for a key of no application."""
    told: dict[str, Any] = {"uuid": "u", "appid": "shop", "schedule": "new", "cron": "0 0 * * *"}
    told |= {"crawl": {"crawlid": "c"}, "seeds": ["http://a.test/", "http://b.test/"]}
    service: Any = SimpleNamespace(quota=_quota({}, Clock()), limits=RequestLimits())
    raw = json.dumps(told).encode()
    with pytest.raises(RequestRefused, match="Quota exceeded"):
        await _check(service, Client("key", Role.OPERATE, **share), raw)
    await _check(service, Client("free", Role.OPERATE), raw)


async def test_nobody_takes_all_turns() -> None:
    """Each client has its share, and one that waits too long is refused."""
    turns = FairSemaphore(most=3, each=2, patience_s=0.2)
    free, running = asyncio.Event(), []

    async def work(client: str) -> None:
        async with turns.of(client):
            running.append(client)
            await free.wait()

    busy = [asyncio.create_task(work("a")) for _ in range(10)]
    other = asyncio.create_task(work("b"))
    await asyncio.sleep(0.05)
    assert sorted(running) == ["a", "a", "b"]
    assert turns.is_full("c")
    with pytest.raises(RequestRefused, match="try again") as refused:
        async with turns.of("c"):
            pass
    assert refused.value.status == 503
    await asyncio.sleep(0.2)
    free.set()
    done = await asyncio.gather(*busy, other, return_exceptions=True)
    assert [type(one) for one in done].count(RequestRefused) == 8
    async with turns.of("a"), turns.of("a"), turns.of("b"):
        assert turns.is_full("a")
    assert not turns.is_full("a")


async def test_only_so_many_wait_for_a_turn() -> None:
    """A client cannot have thousands wait; those who went away leave nothing behind."""
    turns = FairSemaphore(most=1, each=1, patience_s=60)
    async with turns.of("a"):
        waiting = [asyncio.create_task(_pass(turns, "a")) for _ in range(30)]
        await asyncio.sleep(0.05)
        assert sum(one.done() for one in waiting) == 10
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.wait_for(_pass(turns, "a"), 1)


async def _pass(turns: FairSemaphore, client: str) -> None:
    async with turns.of(client):
        await asyncio.sleep(0)


def test_what_lets_somebody_in_is_hidden() -> None:
    """Keeps names of headers, and removes values that carry secrets and the raw record."""
    headers = {
        **{name: ["secret"] for name in ("Cookie", "authorization", "X-Api-Key", "X-Auth-Token")},
        "Accept": ["text/html"],
    }
    value = {
        "url": "http://a.test",
        "request_headers": headers,
        "response_headers": {"Set-Cookie": ["a=secret", "b=secret"], "Server": ["x"]},
        "as_sent": {"head": "HTTP/1.1 401 Unauthorized\r\nSet-Cookie: a=secret\r\nServer: x\r\n"},
        "raw": "c2VjcmV0",
    }
    shown = hide(value)
    assert "secret" not in str(shown)
    assert shown["request_headers"]["Accept"] == ["text/html"]
    assert shown["response_headers"] == {"Set-Cookie": [HIDDEN, HIDDEN], "Server": ["x"]}
    assert shown["as_sent"] == {"head": "HTTP/1.1 401 Unauthorized\r\nServer: x\r\n"}
    assert (shown["raw"], shown["raw_hidden"], shown["url"]) == (None, True, "http://a.test")
    assert hide({"request_headers": None, "raw": None}) == {"request_headers": None, "raw": None}


def test_secrets_are_for_operators() -> None:
    """Every role below operate sees records without them; a bound key those of its applications."""
    assert wanted_by(Client("a", Role.OPERATE)) == RecordFilter()
    for role in (Role.READ, Role.SUBMIT):
        assert wanted_by(Client("a", role)).is_hiding
    bound = Client("a", Role.OPERATE, appids=frozenset({"shop"}))
    assert wanted_by(bound, appid="shop").appids == {"shop"}
    with pytest.raises(RequestRefused, match="to the applications shop"):
        wanted_by(bound, appid="news")


async def _asked_by_head(app: Any) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "path": "/"}
    async with asyncio.timeout(5):
        await Heads(app)(scope, receive, send)
    return sent


async def test_head_ends_a_stream_at_its_headers() -> None:
    """An endless response is not begun; a response that fails before its headers fails."""
    start = {"type": "http.response.start", "status": 200, "headers": []}
    ended = []

    async def endless(scope: Scope, _receive: Receive, send: Send) -> None:
        assert scope["method"] == "GET"
        await send(start)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    assert await _asked_by_head(endless) == [start, {"type": "http.response.body", "body": b""}]
    assert ended == [True]

    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await _asked_by_head(broken)


def test_a_key_tells_nothing_of_its_secret() -> None:
    """Repeats no secret of a key, neither in its text nor in errors."""
    assert SECRET not in repr(ApiKey(role="read", secret=SECRET))


def test_the_key_of_a_command_is_one_that_a_header_can_have() -> None:
    """Another one is refused by the name of the variable, without its text."""
    with pytest.raises(ConfigError, match="CRAWLSTREAM_API_KEY") as refused:
        load_settings(CRAWLSTREAM_API_KEY="geheim\u00e9")
    assert "geheim" not in str(refused.value)
    settings = load_settings(CRAWLSTREAM_API_KEY="geheim-0123456789")
    assert settings.api_key == "geheim-0123456789"
    assert "geheim" not in repr(settings)
