"""Crawl requests from a table (CSV), and seeds from files."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import Refusal, RequestLimits
from crawlstream.wire import jsontext
from crawlstream.wire.requests import SCRAPER
from crawlstream.wire.schedules import seed_problems

Seed = Mapping[str, Any]

# A cell may contain a whole body; the library's default limit is a sixteenth of a request.
csv.field_size_limit(RequestLimits().max_bytes)


def read_table(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield the object of each row: see ``read_rows``."""
    return (row for _, row in read_rows(lines))


def read_rows(lines: Iterable[bytes]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the line at which each row ends, and its object.

    The first row names the fields; an empty or missing cell is an absent field.

    Text stays text. A list is JSON, or words separated by spaces; true and false may be in
    capitals, as spreadsheets write them; everything else is JSON, and the schema refuses cells that
    are not. Rows are not checked to be requests here. Raise InvalidRequest with the line of an
    error in the table.
    """
    table = csv.DictReader(_decoded(lines), strict=True)
    try:
        if twice := _named_twice(table.fieldnames or ()):
            raise _torn(1, f"column {twice} occurs twice")
        for row in table:
            if None in row:
                raise _torn(table.reader.line_num, "the row has more cells than the header")
            fields = {name: _cell(name, text) for name, text in row.items() if text}
            yield table.reader.line_num, fields
    except csv.Error as error:
        raise _torn(table.reader.line_num, str(error)) from error


def read_seeds(name: str, data: bytes) -> Iterator[Seed]:
    """Yield the seeds of a file, whose name gives its format; each has a URL.

    Empty lines are skipped, and lines of a list of URLs that begin with ``#``. Seeds are not
    checked to be crawlable here. Raise InvalidRequest with the first line that is not a seed.
    """
    if name.endswith(".csv"):
        found = read_rows(io.BytesIO(data))
    elif name.endswith(".jsonl"):
        found = _objects(data)
    else:
        found = _urls(data)
    for number, seed in found:
        if problems := seed_problems(seed):
            raise _torn(number, problems[0].lstrip(": ."))
        yield seed


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(Refusal.NOT_UTF8, [f"line {number}: not UTF-8"]) from error


def _named_twice(names: Iterable[str]) -> str:
    """Return a field that two columns have, or ""; columns without a name are allowed."""
    (name, times), *_ = [*Counter(filter(None, names)).most_common(1), ("", 0)]
    return name if times > 1 else ""


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    lines = ((number, line.strip()) for number, line in enumerate(_decoded(io.BytesIO(data)), 1))
    return (each for each in lines if each[1])


def _urls(data: bytes) -> Iterator[tuple[int, Seed]]:
    return ((number, {"url": url}) for number, url in _lines(data) if not url.startswith("#"))


def _objects(data: bytes) -> Iterator[tuple[int, Seed]]:
    for number, text in _lines(data):
        try:
            value = jsontext.loads(text.encode())
        except ValueError as error:
            raise _torn(number, "not JSON") from error
        if not isinstance(value, dict):
            raise _torn(number, "not a JSON object")
        yield number, value


def _torn(line: int, problem: str) -> InvalidRequest:
    return InvalidRequest(Refusal.BAD_REQUEST, [f"line {line}: {problem}"])


def _cell(name: str, text: str) -> object:
    kinds = _KINDS.get(name, ("string",))
    if "string" in kinds and "boolean" not in kinds:
        return text
    if "boolean" in kinds and text.lower() in _TRUTHS:
        return text.lower() == "true"
    try:
        value = jsontext.loads(text.encode())
    except ValueError:
        return text.split() if "array" in kinds else text
    if "array" in kinds and value is not None and not _is_list(value):
        return text.split()
    return value


_TRUTHS = frozenset({"true", "false"})


def _is_list(value: object) -> bool:
    """Return whether JSON is a list as fields have it: of texts, or of objects."""
    return isinstance(value, list) and all(isinstance(each, str | dict) for each in value)


def _types(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types of a field; text if its rule has none."""
    shape = rule.get("$ref", "").rpartition("/")[2]
    found = rule.get("type") or SCRAPER.schema.shapes.get(shape, {}).get("type") or "string"
    return (found,) if isinstance(found, str) else tuple(found)


_KINDS = {name: _types(rule) for name, rule in SCRAPER.schema.properties.items()}
