"""Replies: handed to who waits, kept within bounds for who polls."""

from __future__ import annotations

import pytest

from crawlstream.boot.loopback import is_loopback
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from rest_service.http import idempotency as once_module
from rest_service.http.access import RateLimiter, Role, role_needed
from rest_service.http.envelope import RequestRefused
from rest_service.http.idempotency import IdempotencyStore
from rest_service.process import _listen
from rest_service.topics import replies
from rest_service.topics.replies import Replies


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


async def test_a_reply_goes_to_all_who_wait_and_is_not_kept() -> None:
    """Two clients with the same uuid both get the reply, and nothing is left over."""
    kept = Replies()
    with kept.expecting("u") as one, kept.expecting("u") as other:
        kept.arrived("u", b"1")
        assert (one.result(), other.result()) == (b"1", b"1")
    assert kept.take("u") is None
    assert kept.kept_bytes == 0


async def test_a_second_reply_is_kept() -> None:
    """A reply that comes again, or late, can be polled once."""
    kept = Replies()
    with kept.expecting("u"):
        kept.arrived("u", b"1")
        kept.arrived("u", b"22")
    assert kept.take("u") == b"22"
    assert kept.take("u") is None


def test_replies_nobody_polls_are_dropped_by_age() -> None:
    """Drops a reply that no client polls after an hour."""
    clock = Clock()
    kept = Replies(clock=clock)
    kept.arrived("u", b"1")
    clock.now = replies.KEPT_S + 1
    assert kept.take("u") is None
    assert kept.kept_bytes == 0


def test_replies_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first when there are too many or too large ones."""
    monkeypatch.setattr(replies, "KEPT_REPLIES", 3)
    monkeypatch.setattr(replies, "KEPT_BYTES", 100)
    kept = Replies()
    for number in range(5):
        kept.arrived(str(number), b"x")
    assert [kept.take(str(number)) for number in range(5)] == [None, None, b"x", b"x", b"x"]
    kept.arrived("large", b"x" * 90)
    kept.arrived("larger", b"x" * 91)
    assert kept.take("large") is None
    assert kept.kept_bytes == 91


def test_a_client_has_its_share_of_requests() -> None:
    """A bucket holds two seconds' worth, and fills with time; others have their own."""
    clock = Clock()
    limiter = RateLimiter(2, clock=clock)
    assert [limiter.admit("a") for _ in range(5)] == [True] * 4 + [False]
    assert limiter.admit("b")
    clock.now = 0.5
    assert [limiter.admit("a") for _ in range(2)] == [True, False]
    assert all(RateLimiter(0).admit("a") for _ in range(10_000))


def test_what_is_not_named_needs_the_highest_role() -> None:
    """A new route that writes is for operators unless it has another role."""
    assert role_needed("POST", "/v2/anything") is Role.OPERATE
    assert role_needed("GET", "/v2/anything") is Role.READ
    assert role_needed("GET", "/healthy") is Role.READ
    assert role_needed("GET", "/health/live") is Role.ANYONE


@pytest.mark.parametrize(
    ("name", "is_own"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_names_of_this_machine(name: str, *, is_own: bool) -> None:
    """Accepts only loopback as names of this machine."""
    assert is_loopback(name) is is_own


def test_beyond_loopback_a_key_is_needed() -> None:
    """An address that others reach is refused with the variable that is missing."""
    settings = load_settings(rest_host="0.0.0.0")
    with pytest.raises(ConfigError, match="CRAWLSTREAM_API_KEYS"):
        _listen(settings)


@pytest.mark.parametrize("keys", ["read:short", "admin:" + "x" * 20, "x" * 20, "read:" + "ä" * 20])
def test_keys_that_are_none_are_refused(keys: str) -> None:
    """A key has a known role and a secret of 16 printable characters or more."""
    with pytest.raises(ConfigError, match="API_KEYS") as refused:
        load_settings(CRAWLSTREAM_API_KEYS=keys)
    assert keys.partition(":")[2] not in str(refused.value) or ":" not in keys


async def test_what_failed_may_be_tried_again() -> None:
    """Stores answers under a key, not failures, so that these may be repeated."""
    once, tries = IdempotencyStore(), iter([False, True])

    async def work() -> bytes:
        if not next(tries):
            raise RequestRefused(503, "not now")
        return b"done"

    with pytest.raises(RequestRefused, match="not now"):
        await once.run("client", "key", b"", work)
    assert await once.run("client", "key", b"", work) == b"done"
    assert await once.run("client", "key", b"", work) == b"done"


async def test_answers_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers under keys are limited by number and size; the oldest goes first."""
    monkeypatch.setattr(once_module, "REMEMBERED_BYTES", 3_000)
    clock = Clock()
    once, done = IdempotencyStore(clock=clock), 0

    async def work() -> bytes:
        nonlocal done
        done += 1
        return b"x" * 500

    for number in range(4):
        await once.run("client", str(number), b"", work)
    assert once.remembered_bytes == 3_000
    await once.run("client", "3", b"", work)
    assert done == 4
    await once.run("client", "0", b"", work)
    assert done == 5
    clock.now = once_module.REMEMBERED_S + 1
    await once.run("client", "new", b"", work)
    assert once.remembered_bytes == 1_000
    monkeypatch.setattr(once_module, "REMEMBERED_BYTES", 900)
    assert await once.run("client", "large", b"", work) == b"x" * 500
    assert once.remembered_bytes == 0


async def test_a_reply_goes_to_those_who_may_see_it() -> None:
    """A key of other applications can neither wait for it nor poll it."""
    replies, reply = Replies(), b'{"uuid": "u", "appid": "shop"}'
    with (
        replies.expecting("u", {"news"}.__contains__) as foreign,
        replies.expecting("u", {"shop"}.__contains__) as own,
    ):
        replies.arrived("u", reply)
        assert (foreign.done(), own.done()) == (False, True)
    replies.arrived("u", reply)
    assert replies.take("u", {"news"}.__contains__) is None
    assert replies.take("u", {"shop"}.__contains__) == reply
