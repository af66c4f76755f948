"""Reads the WARC files of a pipeline, and their indexes, as a player does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

_WARC = ".warc.gz"
_IDENTICAL = "identical-payload-digest"
Place = tuple[str, str]
"""URL and date of a record."""


@dataclass(slots=True)
class _Seen:
    """Payloads and revisits of all files."""

    payloads: dict[Place, str] = field(default_factory=dict)
    """Digest of the payload of each response."""
    revisits: list[tuple[str, Place, str]] = field(default_factory=list)
    """Where a revisit is, the record that it refers to, and its digest."""


def archive_faults(folder: Path, noted: Sequence[str]) -> tuple[Sequence[str], int]:
    """Return what is wrong with the files of an archive, and how many revisits it has.

    ``noted``: names of the files of its finished segments.
    """
    seen, faults = _Seen(), []
    for name in noted:
        if name.endswith(_WARC):
            content = (folder / name).read_bytes()
            faults += [f"{name}: {why}" for why in _of_file(content, name, seen)]
            index = folder / f"{name.removesuffix(_WARC)}.cdxj"
            lines = index.read_text().splitlines() if index.exists() else []
            faults += [f"{index.name}: {why}" for why in _of_index(lines, content, name)]
    for where, place, digest in seen.revisits:
        if seen.payloads.get(place) != digest:
            faults.append(f"{where}: it refers to {place}, which has {seen.payloads.get(place)}")
    return faults, len(seen.revisits)


def _of_file(content: bytes, name: str, seen: _Seen) -> Iterator[str]:
    for record in ArchiveIterator(BytesIO(content), check_digests=True):
        head, body = record.rec_headers, record.content_stream().read()
        if record.digest_checker.passed is False:
            yield f"a digest of {head.get_header('WARC-Record-ID')} is wrong"
        digest = head.get_header("WARC-Payload-Digest") or ""
        if record.rec_type == "response":
            seen.payloads[_place(head, "WARC-Target-URI", "WARC-Date")] = digest
            if digest != f"sha256:{hashlib.sha256(body).hexdigest()}":
                yield f"{head.get_header('WARC-Target-URI')} has another payload than its digest"
        elif _IDENTICAL in (head.get_header("WARC-Profile") or ""):
            place = _place(head, "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date")
            seen.revisits.append((name, place, digest))


def _of_index(lines: Sequence[str], content: bytes, name: str) -> Iterator[str]:
    """Yield what is wrong with the index of a file: each page has to be found by it."""
    if list(lines) != sorted(lines):
        yield "it is not in order"
    found = {}
    for line in lines:
        told: Mapping[str, Any] = json.loads(line.split(" ", 2)[2])
        begin = int(told["offset"])
        (record,) = ArchiveIterator(BytesIO(content[begin : begin + int(told["length"])]))
        found[record.rec_headers.get_header("WARC-Record-ID")] = told
        url = record.rec_headers.get_header("WARC-Target-URI")
        if (told["filename"], told["url"]) != (name, url):
            yield f"it has {told['url']} of {told['filename']} for {url} of {name}"
    for record in ArchiveIterator(BytesIO(content)):
        head = record.rec_headers
        is_identical = _IDENTICAL in (head.get_header("WARC-Profile") or "")
        if (record.rec_type == "response" or is_identical) and (
            found.pop(head.get_header("WARC-Record-ID"), None) is None
        ):
            yield f"it lacks {head.get_header('WARC-Target-URI')}"
    if found:
        yield f"it has {len(found)} records that are not in its file"


def _place(head: Any, url: str, date: str) -> Place:
    return head.get_header(url), head.get_header(date)
