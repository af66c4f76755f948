"""Table of the changes that are found and not published yet, written with the memory.

An event enters the table in the transaction that learns the change and moves the position, so there
is one for each change, and none for what was undone. It leaves the table when Kafka has it. A
process that dies in between publishes the same bytes again, under the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import re2

from crawlstream.plugins.sinks import SinkUnavailable
from pipeline_service.formats.columns import ColumnType
from pipeline_service.memory.page_changes import ChangeEvent, LearntStep, diff_field, event_of
from pipeline_service.memory.sql.change_texts import ChangeTexts
from pipeline_service.memory.sql.webhook_queue import WebhookQueue
from pipeline_service.sinks.sql.database import Database, Transaction, as_time, quoted

MOST_WAITING = 100_000
"""Maximum number of events that wait; then the memory learns nothing until some are published."""
_SUFFIX = "_outbox"


class ChangeOutbox:
    """The events of one memory; every call is part of a transaction."""

    def __init__(
        self,
        table: str,
        memory: str,
        *,
        url: str = "",
        texts: ChangeTexts | None = None,
        webhook: WebhookQueue | None = None,
    ) -> None:
        """``table`` is that of the memory, ``memory`` the name of its pipeline.

        ``url``: expression of RE2 for the URLs of pages with events. ``texts``: texts of pages for
        diffs; None: events have none. ``webhook``: queue of events for a webhook.
        """
        self._url = re2.compile(url) if url else None
        self._webhook = webhook
        self.texts = texts
        self._memory = memory
        self._name = quoted(table + _SUFFIX)

    def prepare(self, database: Database, transaction: Transaction) -> None:
        """Have the table."""
        text, time = database.types[ColumnType.TEXT], database.types[ColumnType.TIME]
        transaction.execute(
            f"create table if not exists {self._name} (key {text} not null, at {time} not null,"
            f" value {text} not null, primary key (at, key))"
        )
        if self.texts is not None:
            self.texts.prepare(database, transaction)
        if self._webhook is not None:
            self._webhook.prepare(database, transaction)

    def wanted(self, steps: Sequence[LearntStep]) -> Sequence[LearntStep]:
        """Return the steps of pages that have events."""
        if self._url is None:
            return steps
        return [step for step in steps if self._url.search(step.after.url)]

    def learn(self, transaction: Transaction, steps: Sequence[LearntStep]) -> None:
        """Have the changes among steps published, whose pages are locked; errors as in `add`.

        Unforeseen: a diff has not been found.
        """
        steps = self.wanted(steps)
        fields: Iterable[Mapping[str, Any]] = repeat({})
        if self.texts is not None:
            fields = map(diff_field, self.texts.learn(transaction, steps))
        found = [event_of(self._memory, *each) for each in zip(steps, fields, strict=False)]
        if events := [event for event in found if event is not None]:
            self.add(transaction, events)
            if self._webhook is not None:
                self._webhook.add(transaction, events)

    def add(self, transaction: Transaction, events: Sequence[ChangeEvent]) -> None:
        """Have events published. SinkUnavailable: too many wait; nothing is learnt then."""
        waiting = transaction.execute(
            f"select count(*) from (select 1 as one from {self._name} limit {MOST_WAITING})"
            " as waiting"
        )
        if int(waiting[0][0]) >= MOST_WAITING:
            raise SinkUnavailable(
                f"{MOST_WAITING:,} changes wait to be published: does a process of the pipeline"
                " run that can write to the topic of events?"
            )
        for event in events:
            transaction.execute(
                f"insert into {self._name} (key, at, value) values (%s, %s, %s)"
                " on conflict (at, key) do nothing",
                (event.key, as_time(event.at), event.value),
            )

    def oldest(self, transaction: Transaction, most: int) -> Sequence[tuple[str, str]]:
        """Return key and value of events, those of one page in their order."""
        found = transaction.execute(
            f"select key, value from {self._name} order by at, key limit {int(most)}"
        )
        return [(str(key), str(value)) for key, value in found]

    def remove(self, transaction: Transaction, keys: Sequence[str]) -> None:
        """Take events out that are published."""
        marks = ", ".join(["%s"] * len(keys))
        transaction.execute(
            f"delete from {self._name} where key in ({marks}) returning null", tuple(keys)
        )
