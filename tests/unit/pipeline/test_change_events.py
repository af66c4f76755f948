"""Steps of a page that have an event, and their keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import orjson
import pytest

from pipeline_service.memory.known_page import KnownPage, learn
from pipeline_service.memory.page_changes import (
    ChangeEvent,
    LearntStep,
    ResultPlace,
    event_in,
    event_of,
)
from pipeline_service.memory.seen import Seen, Sight, key_of
from pipeline_service.spec.rule import IntervalRule

URL = "http://example.com/"
PLACE = ResultPlace("demo.crawled_firehose", 3, 812)


def told(*said: tuple[Sight, str | None]) -> Sequence[ChangeEvent]:
    """Return the events of a page that is seen so, once an hour."""
    page: KnownPage | None = None
    found = []
    for hour, (sight, signature) in enumerate(said):
        seen = Seen(
            key=key_of("app", URL),
            appid="app",
            url=URL,
            domain="example.com",
            spiderid="link",
            id="one",  # A page that is requested again after a crash keeps its id.
            at=hour * 3_600.0000013,
            sight=sight,
            signature=signature,
        )
        before, page = page, learn(page, seen, IntervalRule())
        if page is not None:
            found.append(event_of("news", LearntStep(before, page, seen, PLACE), {}))
    return [each for each in found if each is not None]


A, B = (Sight.THERE, "a"), (Sight.THERE, "b")
SAME, GONE = (Sight.UNMODIFIED, None), (Sight.GONE, None)
MOVED, FAILED = (Sight.MOVED, None), (Sight.FAILED, None)


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ([A, A, SAME, FAILED, MOVED, A], "new"),
        ([A, B, B, A], "new changed changed"),
        ([A, GONE, A], "new"),
        ([A, GONE, GONE, GONE, FAILED, GONE], "new gone"),
        ([A, GONE, GONE, A, B], "new gone back changed"),
        ([A, GONE, GONE, B], "new gone back"),
        ([A, GONE, GONE, MOVED, A], "new gone back"),
        ([SAME, A, B], "new changed"),
        ([GONE, FAILED, MOVED, A], "new"),
    ],
)
def test_a_step_is_a_change_or_none(said: Sequence[tuple[Sight, str | None]], kinds: str) -> None:
    """Unmodified, failed and moved pages are none, nor is a first content after a 304."""
    assert [orjson.loads(event.value)["change"] for event in told(*said)] == kinds.split()


def test_no_two_changes_have_one_key() -> None:
    """Gives different keys to all changes, also to two of one page under one id."""
    events = told(*itertools.islice(itertools.cycle([A, B, GONE, GONE]), 40))
    assert len(events) == len({event.key for event in events}) == 30


def test_an_event_is_read_back_as_it_was_made() -> None:
    """Reads an event back as it was made, with its key, for any fraction of a microsecond."""
    for event in told(*itertools.islice(itertools.cycle([A, B]), 40)):
        found = event_in(event.value.encode())
        assert found == event._replace(at=found.at)
        assert abs(found.at - event.at) < 1e-6
    for value in (b"{}", b"[]", b'{"appid": "app", "url": "x", "memory": "m", "at": 7}'):
        with pytest.raises(ValueError, match="not an event of a change"):
            event_in(value)
