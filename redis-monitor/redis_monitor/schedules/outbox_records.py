"""Records of schedules in the frontier's outbox."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.bus.records import Out
from crawlstream.keys import Topics
from crawlstream.model.effects import OutboxSchedule
from crawlstream.wire import events, schedules


def records_of(owed: OutboxSchedule, topics: Topics) -> Sequence[Out]:
    """Return the mark for a new Redis, then the event, if anything happened."""
    mark, event = owed.mark, owed.event
    key = topics.schedule_key(mark.appid, mark.name)
    fired = topics.schedule_key(mark.appid, mark.name, is_fired=True)
    if mark.removed_ms:
        return [Out(topics.schedules, b"", each, deletes=True) for each in (key, fired)]
    if event is None:
        return [Out(topics.schedules, schedules.encode_mark(mark), key)]
    name = key + f":{event.at}:{event.event}:{event.reason}".encode()
    return [
        Out(topics.schedules, schedules.encode_mark(mark), fired),
        Out(topics.events, events.encode_of_schedule(event), name),
    ]
