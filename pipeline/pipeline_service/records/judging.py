"""From records to what becomes of each: a page for the sink, filtered, or undelivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from crawlstream.bus.records import Batch, Record
from crawlstream.model.delivered import Delivered
from crawlstream.model.event import PageFailed
from crawlstream.wire import events
from crawlstream.wire.delivered import NotAResult, decode, without_secrets
from pipeline_service.records.account import marks_of, run_of
from pipeline_service.records.rows import StoreRow
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.quality.counts import QualityCounts

UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class _Judged:
    """Record with the decision about it; ``outcome`` and ``reason`` count in the account."""

    outcome: ClassVar[str]
    record: Record
    id: str = ""
    """Id of its page; empty: the record is not a page."""
    run: str | None = None
    """Run that it counts for, if that can be read."""
    reason: str = ""
    """Reason why nothing is written, as a code."""
    quality: QualityCounts | None = None
    """Quality of its items, where they are counted."""
    marks: Sequence[str] = ()
    """Words that it counts under besides: see :func:`.account.marks_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(_Judged):
    """Page to write."""

    outcome = "delivered"
    page: Delivered
    value: bytes
    """The page's record as it may be written."""
    rows: Sequence[StoreRow] | None = None
    """Rows to write in place of the page; None: the page unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPage(_Judged):
    """Page without a result, to note in a memory."""

    outcome = "delivered"
    event: PageFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedPages(_Judged):
    """Pages that their site says to have changed, to note in a memory."""

    outcome = "delivered"
    appid: str
    urls: Sequence[str]
    at: int
    """Epoch seconds."""


@dataclass(frozen=True, slots=True)
class FilteredRecord(_Judged):
    """Record that is left out."""

    outcome = "filtered"


@dataclass(frozen=True, slots=True)
class Repeat(_Judged):
    """Page that has come before; no stage is called."""

    outcome = "repeats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeliverable(_Judged):
    """Record for the topic of undelivered ones."""

    outcome = "undelivered"
    errors: Sequence[str]
    """Errors as sentences."""
    stage: str = ""
    """Stage that refused it; empty: it did not come to one."""


Judged = Wanted | FailedPage | AnnouncedPages | FilteredRecord | Repeat | Undeliverable


def judge(pipeline: Pipeline, batch: Batch) -> Sequence[Judged]:
    """Decode records and filter them. Never fails; takes CPU time."""
    return [_judge(pipeline, record) for record in batch.records]


def _judge(pipeline: Pipeline, record: Record) -> Judged:
    if pipeline.reads_failures:
        return _judge_event(pipeline, record)
    if record.unread:
        return Undeliverable(record, reason=UNREADABLE, errors=[record.unread])
    try:
        page = decode(record.value)
        if reason := pipeline.refuses(page):
            return FilteredRecord(record, page.id, run_of(page), reason, marks=marks_of(page))
        value = record.value or b""
        if not pipeline.keep_secrets:
            value, page = without_secrets(value, page)
        return Wanted(record, page.id, run_of(page), marks=marks_of(page), page=page, value=value)
    except NotAResult as error:
        return Undeliverable(record, reason=UNREADABLE, errors=[str(error)])


def _judge_event(pipeline: Pipeline, record: Record) -> Judged:
    """Judge an event: pages that failed or are announced are wanted, other events are not."""
    value = b"" if record.unread else record.value or b""
    name = f"{record.partition}-{record.offset}"
    if announced := events.decode_announced(value):
        appid, urls, at = announced
        if pipeline.where.appid is not None and appid not in pipeline.where.appid:
            return FilteredRecord(record, name, reason="where")
        return AnnouncedPages(record, name, appid=appid, urls=urls, at=at)
    event = events.decode_page_failed(value)
    if event is None:
        return FilteredRecord(record, name, reason="event")
    if not pipeline.where.is_about(event.crawl):
        return FilteredRecord(record, name, reason="where")
    return FailedPage(record, name, event=event)
