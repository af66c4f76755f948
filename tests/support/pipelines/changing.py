"""A memory whose changes are events, and results that change its pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.boot.signed_post import SignedPost
from crawlstream.bus.protocols import Sink
from pipeline_service.memory.sql.change_store import ChangeStore
from pipeline_service.memory.sql.memory_client import MemoryClient
from pipeline_service.memory.webhook_sender import WebhookSender
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_changes, open_webhook
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.memory import PagesSink
from pipeline_service.staging import opened
from support.pipelines import writer
from support.pipelines.results import record
from support.pipelines.targets import select
from support.receivers import Receiver

BEGAN = 1_795_251_154.0
URL = "http://example.com/a"
SIGNED_BY = "a-secret-of-some-length"


class Ground:
    """A memory whose changes are events."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.more = ""
        """Further keys of ``changes``."""
        self.table = "memory"
        self._stores: list[MemoryClient] = []

    @property
    def pipeline(self) -> Pipeline:
        """Its pipeline, named ``p``."""
        told = f'signature = "body", changes = {{events = true{self.more}}}'
        sink = f'kind = "pages", url = "{self.url}", table = "{self.table}", {told}'
        more = 'where = {appid = ["app"]}\nworkers = 0\nstage = [{use = "markdown"}]'
        return writer.pipeline(sink, more)

    async def learn(self, *values: bytes, partition: int = 0) -> None:
        """Have the memory read records of a partition, after those before."""
        asked = self.pipeline
        async with writer.sink_of(asked, self.folder / f"spool{partition}") as sink:
            start = await sink.position(writer.TOPIC, partition) or 0
            batch = replace(writer.batch_of(values, start), partition=partition)
            async with opened([asked]) as stagings:
                judged = judge(asked, batch)
                staged = await stagings["p"].run(judged, lambda _: None, lambda _: False)
            assert await sink.write(batch, staged, Liveness("write")) is None

    def store(self) -> ChangeStore:
        """The changes, as another process has them."""
        pipeline = self.pipeline
        assert isinstance(pipeline.sink, PagesSink)
        store = open_changes(pipeline, pipeline.sink)
        self._stores.append(store)
        return store

    def sender(
        self, sink: Sink, *, allows: str = "127.0.0.0/8", prefix: str = "demo"
    ) -> WebhookSender:
        """The sender of its webhook, in a process whose settings allow networks."""
        pipeline = self.pipeline
        assert isinstance(pipeline.sink, PagesSink)
        assert pipeline.sink.changes
        settings = load_settings(CRAWLSTREAM_NOTIFY_NETWORKS=allows, KAFKA_TOPIC_PREFIX=prefix)
        changes, store = pipeline.sink.changes, open_webhook(pipeline, pipeline.sink)
        post = SignedPost(changes.webhook, changes.secret, settings)
        self._stores.append(store)
        return WebhookSender(pipeline, store, post, sink=sink, topics=settings.topics)

    def unsent(self) -> list[Any]:
        """Return the rows that wait for the webhook."""
        return select(self.url, "select key, tries, why from memory_unsent order by at, key")

    def waiting(self) -> list[Any]:
        """The events that wait to be published."""
        found = select(self.url, "select value as it from memory_outbox order by at, key")
        return [orjson.loads(row["it"]) for row in found]

    def close(self) -> None:
        """Let go of the database."""
        for store in self._stores:
            store.close()


def hook(receiver: Receiver) -> str:
    """Keys of ``changes`` for a receiver."""
    return f', webhook = "http://127.0.0.1:{receiver.port}/", secret = "{SIGNED_BY}"'


def page(number: int, hours: float, body: bytes = b"one", url: str = URL) -> bytes:
    """A result of a page, seen that number of hours after the beginning."""
    at = BEGAN + 3_600 * hours
    return record(number, url=url, response_url=url, timestamp=at, body=body)
