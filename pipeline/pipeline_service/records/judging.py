"""From records to what becomes of each: a page for the sink, filtered, or undelivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.bus.records import Batch, Record
from crawlstream.model.delivered import Delivered
from crawlstream.model.event import PageFailed
from crawlstream.wire import events
from crawlstream.wire.delivered import NotAResult, decode, without_secrets
from pipeline_service.records.account import run_of
from pipeline_service.records.rows import StoreRow
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.quality.counts import QualityCounts

UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Judged:
    """A record and what is to be done with it."""

    record: Record
    page: Delivered | None = None
    """Page to write; None: nothing."""
    value: bytes = b""
    """The page's record as it may be written."""
    run: str | None = None
    """The run that it counts for, where it can be read."""
    id: str = ""
    """Id of the page, wanted or not; empty: the record is not a page."""
    filtered: str = ""
    """Why it is left out, as a code."""
    reason: str = ""
    """Why it is undelivered, as a code."""
    errors: Sequence[str] = ()
    """Errors as sentences."""
    stage: str = ""
    """Which stage has refused it; empty: it did not come to one."""
    is_repeat: bool = False
    """True if its page has come before, so that no stage was called."""
    rows: Sequence[StoreRow] | None = None
    """Rows to write in place of the page; None: the page unchanged."""
    quality: QualityCounts | None = None
    """Quality of its items, where they are counted."""
    failed: PageFailed | None = None
    """A page that has no result, where such are read."""

    @property
    def is_wanted(self) -> bool:
        """Return whether something is to be written."""
        return self.page is not None or self.failed is not None


def judge(pipeline: Pipeline, batch: Batch) -> Sequence[Judged]:
    """Decode records and filter them. Never fails; takes CPU time."""
    return [_judge(pipeline, record) for record in batch.records]


def _judge(pipeline: Pipeline, record: Record) -> Judged:
    if pipeline.reads_failures:
        return _judge_event(pipeline, record)
    if record.unread:
        return Judged(record, reason=UNREADABLE, errors=[record.unread])
    try:
        page = decode(record.value)
        if reason := pipeline.refuses(page):
            return Judged(record, run=run_of(page), id=page.id, filtered=reason)
        value = record.value or b""
        if not pipeline.keep_secrets:
            value, page = without_secrets(value, page)
        return Judged(record, page, value, run_of(page), page.id)
    except NotAResult as error:
        return Judged(record, reason=UNREADABLE, errors=[str(error)])


def _judge_event(pipeline: Pipeline, record: Record) -> Judged:
    """Judge an event: only pages that failed are wanted; other events are left to their readers."""
    event = None if record.unread else events.decode_page_failed(record.value or b"")
    name = f"{record.partition}-{record.offset}"
    if event is None:
        return Judged(record, id=name, filtered="event")
    if not pipeline.where.is_about(event.crawl):
        return Judged(record, id=name, filtered="where")
    return Judged(record, id=name, failed=event)
