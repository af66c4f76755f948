"""Requests that come together go out together, and each gets its own verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from crawlstream.bus.records import NotAcknowledged, Out, RecordTooLarge
from rest_service.topics.producer import MAX_RECORDS, ListProducer


class Lists:
    """Notes the lists that would be sent, and answers each on demand."""

    def __init__(self) -> None:
        self.sent: list[Sequence[Out]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def send(self, records: Sequence[Out]) -> None:
        """As a sink's."""
        self.sent.append(records)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error


def _record(text: str = "x") -> Out:
    return Out("topic", text.encode())


async def _under_way(feeder: ListProducer, *lists: Sequence[Out]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(feeder.feed(records)) for records in lists]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_what_comes_meanwhile_is_one_list() -> None:
    """While a list is in flight, requests gather; no list is longer than the maximum."""
    lists = Lists()
    feeder = ListProducer(lists.send)
    first = await _under_way(feeder, [_record()])
    rest = await _under_way(feeder, *([[_record()]] * MAX_RECORDS), [_record()] * 2)
    lists.may_answer.set()
    await asyncio.gather(*first, *rest)
    assert [len(records) for records in lists.sent] == [1, MAX_RECORDS, 2]


@pytest.mark.parametrize("kind", [NotAcknowledged, RecordTooLarge])
async def test_a_failure_concerns_only_its_own_request(
    kind: type[NotAcknowledged | RecordTooLarge],
) -> None:
    """The request whose record failed gets the error, with the record, not others of its list."""
    lists = Lists()
    feeder = ListProducer(lists.send)
    good, bad = _record("same"), _record("same")
    lists.error = kind("no", [bad])
    first = await _under_way(feeder, [_record()])
    both = await _under_way(feeder, [good], [bad])
    lists.may_answer.set()
    answers = await asyncio.gather(*first, *both, return_exceptions=True)
    assert answers[:2] == [None, None]
    assert isinstance(answers[2], kind)
    assert answers[2].records == [bad]


async def test_who_gave_up_is_left_out() -> None:
    """A request that was cancelled before its list began is not sent, and harms no other."""
    lists = Lists()
    feeder = ListProducer(lists.send)
    first = await _under_way(feeder, [_record()])
    gone, here = await _under_way(feeder, [_record("gone")], [_record("here")])
    gone.cancel()
    lists.may_answer.set()
    await asyncio.gather(*first, here)
    assert [record.value for record in lists.sent[1]] == [b"here"]
