"""Records the output of a cluster: its topics, Kafka's logs on disk, the site's access log."""

from __future__ import annotations

import json
import re
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from kafka import KafkaConsumer, TopicPartition
from kafka.partitioner.default import murmur2

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.facts.facts import TopicRecord
from crawlstream_chaos.witness import SeenRecord, Witness, partitions_of
from crawlstream_cli.demo.access_log import LoggedRequest

_BATCH = struct.Struct(">qiibIhi")
"""Kafka's record batch up to the number of its last record: base offset, length of the rest, …"""
_BATCH_START = 12
"""Base offset and length themselves are not counted in the length."""
_LOST_PAGES = re.compile(r"\$: (\d+) shelved pages ")
_RESULTS = "crawled_firehose"
TRACEPARENT = "traceparent"
"""Header of results of sampled pages, and the field of their records here."""
_KEPT_OF_RESULT = (
    "appid", "attempt", "crawlid", "dropped", "has_body", "id", "payment", "proxy", "recovered",
    "redirect_urls", "run", "signed", "status_code", "timestamp", "url",
)  # fmt: skip


class RecordingWitness(Witness):
    """A witness that knows where and when it read each record, and keeps no bodies."""

    def __init__(self, hosts: str, prefix: str) -> None:
        self._by_crawl: defaultdict[str, list[TopicRecord]] = defaultdict(list)
        self._read_up_to: dict[tuple[str, int], int] = {}
        self.unreadable: list[str] = []
        """Places of records on the topic of results that are none: TOPIC-PARTITION-OFFSET."""
        super().__init__(hosts, prefix)

    def crawl(self, crawlid: str) -> Sequence[TopicRecord]:
        """All records of a crawl so far, in the order in which they were read."""
        return tuple(self._by_crawl.get(crawlid, ()))

    def feed(self, *requests: Mapping[str, Any]) -> None:
        """Feed requests and wait until Kafka has them; those of one crawl keep their order."""
        topic = f"{self._prefix}.incoming"
        sent = [
            self._producer.send(topic, json.dumps(request).encode(), key=_key_of(request))
            for request in requests
        ]
        for each in sent:
            each.get(60)

    def feed_unreadable(self, count: int) -> None:
        """Write records that are not results to their topic, and wait until Kafka has them."""
        topic = f"{self._prefix}.{_RESULTS}"
        for sent in [self._producer.send(topic, b'{"number": %d}' % n) for n in range(count)]:
            sent.get(60)

    def undelivered(self) -> frozenset[str]:
        """Keys of the records that pipelines could not deliver."""
        return frozenset(seen.key or "" for seen in super().records("undelivered"))

    def own_topic(self, appid: str) -> frozenset[str]:
        """Read the keys of the results on an application's own topic; Kafka must be up."""
        return frozenset(record.key.decode() for record in self._all(f"crawled_{appid}"))

    def values(self, topic: str) -> Sequence[Mapping[str, Any]]:
        """Read the values of a topic that has only JSON; Kafka must be up."""
        return [json.loads(record.value) for record in self._all(topic)]

    def _all(self, name: str) -> Iterator[Any]:
        topic = f"{self._prefix}.{name}"
        consumer = KafkaConsumer(bootstrap_servers=self._hosts, enable_auto_commit=False)
        try:
            numbers = partitions_of(consumer, topic)
            places = [TopicPartition(topic, number) for number in numbers]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                for records in consumer.poll(timeout_ms=500).values():
                    yield from records
        finally:
            consumer.close()

    def shelf_lost(self, crawl: CrawlKey) -> int:
        """Return the pages of a crawl that were reported as lost on the shelf, each chunk once."""
        name = FrontierKeys.crawl_field(crawl)
        told = {
            seen.key: int(_LOST_PAGES.match(seen.value["errors"][0])[1])  # type: ignore[index]
            for seen in super().records("rejected", reason="shelf_lost")
            if (seen.key or "").startswith(f"{name}:")
        }
        return sum(told.values())

    def partitions(self) -> Sequence[int]:
        """Return the partitions of the topic that is fed to."""
        return sorted(self._producer.partitions_for(f"{self._prefix}.incoming"))

    def partition_of(self, crawlid: str, partitions: Sequence[int]) -> int:
        """Return where requests of a crawl go."""
        number: int = murmur2(_key_of({"crawlid": crawlid})) & 0x7FFFFFFF
        return partitions[number % len(partitions)]

    def has_read(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Return whether it has read all records up to these offsets."""
        return all(self._read_up_to.get(place, 0) >= end for place, end in ends.items())

    def forget(self, crawlid: str) -> None:
        """Let go of a crawl that was judged."""
        self._by_crawl.pop(crawlid, None)

    def records(self, topic: str, **fields: object) -> list[SeenRecord]:
        """Return the records that have come on a topic so far, with these fields."""
        crawlid = fields.get("crawlid")
        if crawlid is None:
            return super().records(topic, **fields)
        return [
            seen
            for seen in self.crawl(str(crawlid))
            if seen.topic == topic and fields.items() <= seen.value.items()
        ]

    def _note(self, records: Iterable[Any]) -> None:
        now = time.monotonic() * 1000
        for record in records:
            topic = record.topic.removeprefix(self._prefix + ".")
            value = json.loads(record.value)
            if topic == _RESULTS and "crawlid" not in value:
                self.unreadable.append(f"{record.topic}-{record.partition}-{record.offset}")
            if topic == _RESULTS:
                value["has_body"] = bool(value.get("body"))
                value = {name: value[name] for name in _KEPT_OF_RESULT if name in value}
                value |= {k: v.decode() for k, v in record.headers if k == TRACEPARENT}
            seen = TopicRecord(
                topic=topic,
                key=record.key.decode() if record.key else None,
                value=value,
                partition=record.partition,
                offset=record.offset,
                at=now,
            )
            if crawlid := value.get("crawlid"):
                self._by_crawl[str(crawlid)].append(seen)
            if topic != _RESULTS:
                self._seen.append(seen)
            self._read_up_to[seen.place] = record.offset + 1


def _key_of(request: Mapping[str, Any]) -> bytes:
    """Requests of one crawl, or of one schedule, keep their order."""
    return str(request.get("crawlid") or request["schedule"]).encode()


class KafkaLogs:
    """How far Kafka's logs reach, read from its files: it may be dead or frozen meanwhile."""

    def __init__(self, folder: Path, prefix: str, topics: Sequence[str]) -> None:
        """``folder``: where Kafka keeps its data."""
        self._folder = folder
        self._prefix = prefix
        self._topics = topics
        self._read_up_to: dict[Path, int] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def ends(self) -> Mapping[tuple[str, int], int]:
        """(topic, partition) -> offset behind its last record."""
        for topic in self._topics:
            for log in sorted(self._folder.glob(f"{self._prefix}.{topic}-*/*.log")):
                place = topic, int(log.parent.name.rpartition("-")[2])
                if (end := self._end_of(log)) is not None:
                    self._ends[place] = max(end, self._ends.get(place, 0))
        return dict(self._ends)

    def _end_of(self, log: Path) -> int | None:
        """Offset behind the last whole batch that was not read before."""
        at, size, end = self._read_up_to.get(log, 0), log.stat().st_size, None
        with log.open("rb") as file:
            while at + _BATCH.size <= size:
                file.seek(at)
                base, length, *_, last = _BATCH.unpack(file.read(_BATCH.size))
                if length <= 0 or at + _BATCH_START + length > size:
                    break
                at += _BATCH_START + length
                end = base + last + 1
        self._read_up_to[log] = at
        return end


class AccessLogReader:
    """Reads an access log as it grows."""

    def __init__(self, log: Path) -> None:
        self.path = log
        self._at = 0
        self.visits: list[LoggedRequest] = []
        """All so far, in the order in which the site noted them."""

    def read(self) -> int:
        """Take in what is new; how many visits there are now."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._at)
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self._at += len(whole) + 1
                self.visits += [LoggedRequest(**orjson.loads(line)) for line in whole.splitlines()]
        return len(self.visits)
