"""Records of the topics as values: filters, and where a page of them begins and ends."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from crawlstream.bus.record_reader import WantedRecord
from crawlstream.bus.records import Record
from crawlstream.bus.tail import end_offsets, offsets_since, read_topic
from crawlstream.errors import InvalidUrl, KafkaUnavailable, RedisUnavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.model.url import canonical, host_of, seed_url
from crawlstream.wire import jsontext, requests
from crawlstream.wire.results import BODIES
from rest_service.http.access import Client, Role
from rest_service.http.envelope import RequestRefused
from rest_service.http.hiding import hide
from rest_service.service import Service

SCANNED = 20_000
PAGE_BYTES = 16 * 1024 * 1024
PAGE_S = 10.0
"""Bounds of a page; its cursor continues after it."""
CLOCKS_DIFFER_MS = 600_000
"""Milliseconds before the beginning of a crawl at which the search for its records begins."""
_CURSOR = re.compile(r"\d{1,6}:\d{1,19}(?:,\d{1,6}:\d{1,19}){0,9999}")

Name = Literal["results", "events", "rejected"]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Filter for the records of a topic."""

    appid: str | None = None
    crawlid: str | None = None
    event: str | None = None
    with_bodies: bool = False
    spiderid: str | None = None
    url: str | None = None
    """Canonical form of the URL."""
    appids: frozenset[str] = frozenset()
    """Applications whose records are wanted; empty: all."""
    is_hiding: bool = False
    """True if secrets are left out."""

    @property
    def is_all(self) -> bool:
        """Return whether every record is wanted."""
        return self.appid is self.crawlid is self.event is self.spiderid is self.url is None

    def pick(self, record: Record) -> object:
        """Return the record for clients; None if it is not wanted or cannot be read."""
        raw = record.value or b""
        if self.crawlid is not None and orjson.dumps(self.crawlid)[1:-1] not in raw:
            return None
        try:
            value: Any = jsontext.loads(raw)
        except ValueError:
            return None
        if not isinstance(value, dict) or not self._fits(value):
            return None
        if not self.with_bodies:
            for name in BODIES:
                value.pop(name, None)
        return hide(value) if self.is_hiding else value

    def _fits(self, value: Mapping[str, Any]) -> bool:
        if self.appids and _appid_of(value) not in self.appids:
            return False
        if self.url is not None and not is_about(value, self.url):
            return False
        wanted = (
            *(("appid", self.appid), ("crawlid", self.crawlid)),
            *(("event", self.event), ("spiderid", self.spiderid)),
        )
        return all(value.get(name) == text for name, text in wanted if text is not None)


def wanted_by(client: Client, **wanted: Any) -> RecordFilter:
    """Return the filter for a client's query, limited to the records that it may see.

    Raises RequestRefused: 403 for an application that the client may not see, 422 if ``url`` is
    not a URL. It may be in any spelling.
    """
    if wanted.get("url") is not None:
        wanted["url"] = url_of(wanted["url"])
    if wanted.get("appid") is not None:
        client.check(wanted["appid"])
    is_hiding = client.role < Role.OPERATE
    return RecordFilter(**wanted, appids=client.appids, is_hiding=is_hiding)


def url_of(text: str) -> str:
    """Return the canonical form of a URL; RequestRefused (422) gives the reason if it has none."""
    try:
        return canonical(seed_url(text))
    except InvalidUrl as error:
        raise RequestRefused(
            422, f"This URL cannot be crawled: {error}.", code="invalid_url"
        ) from None


def is_about(value: Mapping[str, Any], url: str) -> bool:
    """Return whether a result or event is about a URL, or was redirected from it."""
    told = [value.get("url"), value.get("response_url"), *(value.get("redirect_urls") or ())]
    if value.get("event") == "pages_skipped":
        told += [page["url"] for page in value["pages"]]
    return any(is_spelling(text, url) for text in told)


def is_spelling(text: object, url: str) -> bool:
    """Return whether a text of a record means a canonical URL."""
    if text == url:
        return True
    # Seeds keep their fragment and the order of their query; hosts have only one spelling.
    if not isinstance(text, str) or host_of(url) not in text:
        return False
    try:
        return canonical(text) == url
    except InvalidUrl:
        return False


def _appid_of(value: Mapping[str, Any]) -> object:
    """Return the application of a record; of a rejected one, from its original bytes."""
    if "appid" in value or not isinstance(raw := value.get("raw"), str):
        return value.get("appid")
    try:
        return requests.readable_ids(b64decode(raw)).get("appid")
    except ValueError:
        return None


def cursor_of(offsets: Mapping[int, int]) -> str:
    """Return a cursor, a text that ``parsed`` reads, for an offset per partition."""
    return ",".join(f"{number}:{offset}" for number, offset in sorted(offsets.items()))


@dataclass(slots=True)
class RecordPage:
    """Records in the order in which they were read, and where the next page begins."""

    offsets: dict[int, int]
    records: list[dict[str, object]] = field(default_factory=list)
    scanned: int = 0
    size: int = 0

    @property
    def cursor(self) -> str:
        """Cursor after the last record."""
        return cursor_of(self.offsets)

    def is_full(self, limit: int) -> bool:
        """Return whether the next record belongs to the next page."""
        is_long = len(self.records) >= limit or self.scanned >= SCANNED
        return is_long or self.size >= PAGE_BYTES

    def note(self, record: Record, wanted: RecordFilter) -> bool:
        """Process a record; return True if it was added to the page."""
        self.offsets[record.partition] = record.offset + 1
        self.scanned += 1
        value = wanted.pick(record)
        if value is None:
            return False
        self.size += len(record.value or b"")
        self.records.append(
            {
                "partition": record.partition,
                "offset": record.offset,
                "at_ms": record.timestamp_ms,
                "key": record.key.decode("utf-8", "replace") if record.key else None,
                "value": value,
            }
        )
        return True


async def read_page(
    service: Service,
    name: Name,
    wanted: RecordFilter,
    *,
    cursor: str | None = None,
    limit: int = 100,
    start: Mapping[int, int] | None = None,
) -> tuple[RecordPage, bool]:
    """Return a page, and whether it reaches the present end of the topic; KafkaUnavailable.

    It begins at the cursor, or at ``start``, or at the latest records, or at the first.
    """
    ends = await ends_of(service, name)
    start = dict.fromkeys(ends, 0) | dict(start or {})
    if cursor is not None:
        start |= parsed(cursor, ends)
    elif wanted.is_all:
        # Search more records if the client may see only some of them.
        share = -(-(SCANNED if wanted.appids else limit) // len(ends))
        start = {number: max(0, end - share) for number, end in ends.items()}
    found = RecordPage(start)
    if all(start[number] >= end for number, end in ends.items()):
        return found, True
    try:
        async with asyncio.timeout(PAGE_S), aclosing(read(service, name, start)) as records:
            async for record in records:
                found.note(record, wanted)
                if found.is_full(limit):
                    return found, False
    except TimeoutError:
        return found, False
    found.offsets = {number: max(end, found.offsets[number]) for number, end in ends.items()}
    return found, True


async def start_of(service: Service, name: Name, crawl: CrawlState) -> dict[int, int]:
    """Return approximately where the records of a crawl's latest run begin."""
    at_ms = max(0, int(crawl.started_at * 1000) - CLOCKS_DIFFER_MS)
    return dict(await offsets_since(service.kafka, topic_of(service, name), at_ms))


async def start_of_wanted(
    service: Service, name: Name, wanted: RecordFilter
) -> Mapping[int, int] | None:
    """Return approximately where the latest run of the wanted crawl begins; None if not known.

    Without a spider, the earliest of the crawls with these ids that are known.
    """
    if wanted.appid is None or wanted.crawlid is None:
        return None
    if wanted.spiderid is None:
        ids = wanted.appid, wanted.crawlid
        sampled = [one.crawl for one in service.sampler.crawls]
        keys = [one for one in sampled if (one.appid, one.crawlid) == ids]
        keys.append(CrawlKey("link", *ids))
    else:
        keys = [CrawlKey(wanted.spiderid, wanted.appid, wanted.crawlid)]
    with suppress(RedisUnavailable):
        found = (await service.frontier.queries.states(keys)).values()
        if found:
            earliest = min(found, key=lambda one: one.started_at)
            return await start_of(service, name, earliest)
    return None


async def records_at(
    service: Service, name: Name, places: Mapping[int, Collection[int]]
) -> list[Record]:
    """Return the records at these offsets; RequestRefused (404) names one that is missing."""
    # A consumer waits for a partition that does not exist.
    ends = await ends_of(service, name)
    topic = topic_of(service, name)
    wanted = [
        WantedRecord(topic, number, offset)
        for number, offsets in places.items()
        for offset in sorted(offsets)
    ]
    for place in wanted:
        if place.partition not in ends:
            raise _no_record(place)
    found = await asyncio.gather(*map(service.records.read, wanted))
    for place, record in zip(wanted, found, strict=True):
        if record is None:
            raise _no_record(place)
    return [record for record in found if record is not None]


def _no_record(place: WantedRecord) -> RequestRefused:
    return RequestRefused(
        404,
        f"Partition {place.partition} has no record at offset {place.offset}.",
        code="no_record",
    )


async def one_record(
    service: Service, client: Client, name: Name, place: tuple[int, int]
) -> dict[str, object]:
    """Return one record for a client, with its body; raise RequestRefused (404) if missing."""
    partition, offset = place
    async with service.pages.of(client.name):
        (record,) = await records_at(service, name, {partition: {offset}})
    page = RecordPage({})
    if not page.note(record, wanted_by(client, with_bodies=True)):
        raise RequestRefused(404, "The record cannot be decoded.", code="no_record")
    return page.records[0]


def read(
    service: Service, name: Name, offsets: Mapping[int, int], *, follow: bool = False
) -> AsyncGenerator[Record, None]:
    """Return records from these offsets on; without ``follow``, to the present end of the topic."""
    topic = topic_of(service, name)
    return read_topic(service.kafka, topic, offsets=dict(offsets), follow=follow)


async def ends_of(service: Service, name: Name) -> dict[int, int]:
    """Return the offset after the last record, by partition; raise KafkaUnavailable."""
    if not service.reach.kafka:
        raise KafkaUnavailable
    return dict(await end_offsets(service.kafka, topic_of(service, name)))


def topic_of(service: Service, name: Name) -> str:
    """Return the topic of a name."""
    topics = service.topics
    names = {"results": topics.crawled, "events": topics.events, "rejected": topics.rejected}
    return names[name]


def parsed(cursor: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Return the offsets of a cursor, at most the ends; raise RequestRefused if it is invalid."""
    if not _CURSOR.fullmatch(cursor):
        raise RequestRefused(422, "The cursor is not valid.", code="invalid")
    pairs = [pair.split(":") for pair in cursor.split(",")]
    return {
        int(number): min(int(offset), ends[int(number)])
        for number, offset in pairs
        if int(number) in ends
    }
