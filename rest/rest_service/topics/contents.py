"""The formats of pages on the results topic; and the text of results that are listed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crawlstream.model.delivered import Delivered
from crawlstream.wire import delivered, jsontext
from crawlstream.wire.results import BODIES
from crawlstream_extract.extract import Extracted, ExtractRequest
from rest_service.http.envelope import RequestRefused
from rest_service.topics.extraction import Extraction

MOST_CONTENTS = 50
"""Results of a page of records whose text is made."""
CONTENTS_S = 10.0
"""Seconds after which no further text of a page of records is begun."""
_AT_A_TIME = 2

ContentFormat = Literal["markdown", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatsWanted:
    """Formats of a page, elements of ``extract.FORMATS``, and their limits."""

    formats: Sequence[str]
    main: bool = True
    max_chars: int


async def extracted(extraction: Extraction, page: Delivered, wanted: FormatsWanted) -> Extracted:
    """Return the formats of a page; always with its metadata, where its title is.

    RequestRefused (503) if too many pages wait.
    """
    if not page.body:
        return Extracted(formats=dict.fromkeys(wanted.formats, ""), problems=("body: empty",))
    return await extraction.run(
        ExtractRequest(
            body=page.body,
            encoding=page.encoding,
            mime=page.mime,
            url=page.response_url,
            formats=list(dict.fromkeys([*wanted.formats, "metadata"])),
            main=wanted.main,
            max_chars=wanted.max_chars,
        )
    )


def check_contents(name: str, limit: int) -> None:
    """Raise RequestRefused (422) for records other than results, or more than MOST_CONTENTS."""
    if name != "results":
        raise RequestRefused(422, "`content` is for results only.", code="invalid")
    if limit > MOST_CONTENTS:
        raise RequestRefused(
            422, f"With `content`, `limit` is at most {MOST_CONTENTS}.", code="invalid"
        )


async def add_contents(
    extraction: Extraction,
    records: Sequence[dict[str, Any]],
    wanted: FormatsWanted,
    *,
    with_bodies: bool,
) -> None:
    """Add ``content``, ``truncated`` and ``problems`` to each record, which has its body.

    The body is removed unless ``with_bodies``.
    """
    room = asyncio.Semaphore(_AT_A_TIME)
    until = time.monotonic() + CONTENTS_S

    async def add(record: dict[str, Any]) -> None:
        async with room:
            is_late = time.monotonic() > until
            told = _no_content("timeout") if is_late else None
            record |= told or await _content(extraction, record["value"], wanted)

    await asyncio.gather(*map(add, records))
    for record in records:
        if not with_bodies:
            for name in BODIES:
                record["value"].pop(name, None)


async def _content(extraction: Extraction, value: Any, wanted: FormatsWanted) -> dict[str, Any]:
    try:
        page = await asyncio.to_thread(delivered.decode, jsontext.dumps(value))
    except delivered.NotAResult:
        return _no_content("unreadable")
    made = await extracted(extraction, page, wanted)
    (name,) = wanted.formats
    return {
        "content": made.formats.get(name),
        "truncated": made.truncated or page.body_truncated,
        "problems": [one for one in made.problems if not one.startswith("metadata:")],
    }


def _no_content(problem: str) -> dict[str, Any]:
    return {"content": None, "truncated": False, "problems": [problem]}
