"""Input of forms, converted to bodies of API requests.

A form sends text under the names of a request's fields; the type of each field is defined here.
An empty field is absent. Text that does not have its field's type is passed on unchanged, so that
the API reports the problem.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from crawlstream.model.scope import Scope, scope_fields
from crawlstream.model.throttle_table import RULE_FIELDS
from crawlstream.wire import jsontext
from crawlstream.wire.requests import SCRAPER
from rest_service.http.envelope import RequestRefused

JSON = "application/json"
_FILES = {"csv": "text/csv", "json": JSON}
"""Media types by the ends of the names of files; all others are lines of JSON."""
_DIGITS = 19
_LARGEST = 2**53
"""Largest integer that JSON readers are sure to keep exact."""


class Field(NamedTuple):
    """An optional field of a crawl request."""

    name: str
    label: str
    kind: str = "text"
    """``text``, ``number``, ``lines`` (a list), ``pairs``, ``json``, ``time``, ``truth``,
    ``method``, ``long`` (a text of lines)."""
    example: str = ""
    """Also a value of ``truth`` besides yes and no, if there is one."""


MORE: Sequence[Field] = tuple(
    Field(name, **rule["x-form"])
    for name, rule in SCRAPER.schema.properties.items()
    if "x-form" in rule
)
"""Fields of the form besides its main ones, as the schema of a crawl request describes them."""


class ChosenFile(NamedTuple):
    """A file that the user chose."""

    name: str
    content: bytes

    @property
    def kind(self) -> str:
        """Media type of the file."""
        return _FILES.get(self.name.rpartition(".")[2].lower(), "application/x-ndjson")


class Body(NamedTuple):
    """The body of a request."""

    content: bytes
    kind: str = JSON


@dataclass(frozen=True, slots=True)
class Typed:
    """The content of a form, by the names of its fields."""

    texts: Mapping[str, Sequence[str]]
    """Values by field; names that begin with an underscore are the form's own."""
    file: ChosenFile | None = None
    has_file: bool = False
    """True if the form has a place for a file."""
    at: float = field(default_factory=time.time)

    def text(self, name: str) -> str:
        """Return the first value of a field; "" if there is none."""
        return next(iter(self.texts.get(name, ())), "")

    def firsts(self) -> dict[str, str]:
        """Return the first value of each field of the request that is not empty."""
        told = {name: self.text(name) for name in self.texts if not name.startswith("_")}
        return {name: text for name, text in told.items() if text}

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request as values."""
        return {name: self._value(name, text) for name, text in self.firsts().items()}

    def _value(self, name: str, text: str) -> Any:
        kind = _KINDS.get(name, "text")
        if kind == "ahead" and isinstance(seconds := _number(text), int):
            # 0 ends a pause.
            return int(self.at) + seconds if seconds else 0
        read = _READ.get(kind)
        return read(text) if read else text


def body_of(typed: Typed, *, without: Sequence[str] = ()) -> Body:
    """Return the fields as they are, as JSON."""
    told = typed.fields()
    return Body(jsontext.dumps({name: told[name] for name in told if name not in without}))


def seeds_of(typed: Typed) -> Body:
    """Return seeds: a file, a text as it is, or a request per URL; RequestRefused (422)."""
    if typed.has_file:
        if typed.file is None:
            raise RequestRefused(422, "Choose a file.", code="invalid")
        return Body(typed.file.content, typed.file.kind)
    if "raw" in typed.texts:
        return Body(typed.text("raw").encode("utf-8", "surrogatepass"))
    told = typed.fields()
    urls = _lines(told.pop("urls", ""))
    scope = _scope(told.pop("scope", Scope.ANY))
    if not told.keys() & {"allowed_domains", "allow_regex"}:
        told |= scope_fields(scope, urls)
    return Body(jsontext.dumps([{"url": url, **told} for url in urls] or [told]))


def records_of(typed: Typed) -> Body:
    """Return places of records from ``partition:offset`` texts; RequestRefused (422)."""
    places = map(place_of, typed.texts.get("record", ()))
    records = [{"partition": partition, "offset": offset} for partition, offset in places]
    if not records:
        raise RequestRefused(422, "Choose at least one record.", code="invalid")
    return Body(jsontext.dumps({"records": records}))


def place_of(text: str) -> tuple[int, int]:
    """Return partition and offset from ``partition:offset``; raise RequestRefused (422)."""
    numbers = text.partition(":")[::2]
    if not all(one.isdecimal() and len(one) < _DIGITS for one in numbers):
        sentence = f"record: {text[:50]!r} is not PARTITION:OFFSET."
        raise RequestRefused(422, sentence, code="invalid")
    return int(numbers[0]), int(numbers[1])


def _scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError:
        named = ", ".join(Scope)
        raise RequestRefused(422, f"scope: must be one of {named}.", code="invalid") from None


def _number(text: str) -> int | float | str:
    """Return a number as JSON has it, or the text."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() and abs(number) <= _LARGEST else number


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _pairs(text: str) -> dict[str, str]:
    found = (line.partition(":") for line in _lines(text))
    return {name.strip(): value.strip() for name, _, value in found}


def _json(text: str) -> Any:
    try:
        return jsontext.loads(text.encode())
    except ValueError:
        return text


def _time(text: str) -> int | str:
    """Return epoch seconds of a date and time, in UTC unless it names a zone."""
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return text


def _truth(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text, text)


_READ: Mapping[str, Any] = {
    "number": _number,
    "lines": _lines,
    "pairs": _pairs,
    "json": _json,
    "time": _time,
    "truth": _truth,
}
_KINDS: Mapping[str, str] = {
    **{one.name: one.kind for one in MORE},
    **dict.fromkeys(("maxdepth", "max_pages", "priority", "for_s"), "number"),
    **{
        one.name: "truth" if one.is_truth else "ahead" if one.is_time else "number"
        for one in RULE_FIELDS
    },
    "until": "ahead",
}
