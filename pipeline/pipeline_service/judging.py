"""From records to what becomes of each: a page for the sink, filtered, or undelivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.bus.records import Batch, Record
from crawlstream.model.delivered import Delivered
from crawlstream.wire.delivered import NotAResult, decode, without_secrets
from pipeline_service.account import run_of
from pipeline_service.config import Pipeline
from pipeline_service.quality.counts import Quality
from pipeline_service.rows import Row

UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Judged:
    """A record and what is to be done with it."""

    record: Record
    page: Delivered | None = None
    """What is to be written; None: nothing."""
    value: bytes = b""
    """The page's record as it may be written."""
    run: str | None = None
    """The run that it counts for, where it can be read."""
    id: str = ""
    """Of the page, wanted or not; empty: it is none."""
    filtered: str = ""
    """Why it is left out, as a code."""
    reason: str = ""
    """Why it is undelivered, as a code."""
    errors: Sequence[str] = ()
    """The same in sentences."""
    stage: str = ""
    """Which stage has refused it; empty: it did not come to one."""
    is_repeat: bool = False
    """Whether its page has come before, so that no stage was asked."""
    rows: Sequence[Row] | None = None
    """What is written in place of the page; None: the page as it is."""
    quality: Quality | None = None
    """Of its items, where they are counted."""


def judge(pipeline: Pipeline, batch: Batch) -> Sequence[Judged]:
    """Decode records and filter them. Never fails; takes CPU time."""
    return [_judge(pipeline, record) for record in batch.records]


def _judge(pipeline: Pipeline, record: Record) -> Judged:
    if record.unread:
        return Judged(record, reason=UNREADABLE, errors=[record.unread])
    try:
        page = decode(record.value)
        if reason := pipeline.where.refuses(page):
            return Judged(record, run=run_of(page), id=page.id, filtered=reason)
        value = record.value or b""
        if not pipeline.keep_secrets:
            value, page = without_secrets(value, page)
        return Judged(record, page, value, run_of(page), page.id)
    except NotAResult as error:
        return Judged(record, reason=UNREADABLE, errors=[str(error)])
