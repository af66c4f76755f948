"""From records to what becomes of each: a page for the sink, filtered, or undelivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.bus.records import Batch, Record
from crawlstream.model.delivered import Delivered
from crawlstream.wire.delivered import NotAResult, decode, without_secrets
from pipeline_service.account import run_of
from pipeline_service.config import Pipeline

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
    problem: str = ""
    """Why it is undelivered, as a sentence."""


def judge(pipeline: Pipeline, batch: Batch) -> Sequence[Judged]:
    """Decode records and filter them. Never fails; takes CPU time."""
    return [_judge(pipeline, record) for record in batch.records]


def _judge(pipeline: Pipeline, record: Record) -> Judged:
    if record.unread:
        return Judged(record, problem=record.unread)
    try:
        page = decode(record.value)
        if reason := pipeline.where.refuses(page):
            return Judged(record, run=run_of(page), id=page.id, filtered=reason)
        value = record.value or b""
        if not pipeline.keep_secrets:
            value, page = without_secrets(value, page)
        return Judged(record, page, value, run_of(page), page.id)
    except NotAResult as error:
        return Judged(record, problem=str(error))
