"""Requests as people hand them in: where each stands, and whether the cluster would take it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import CrawlRequest, Refusal, RequestLimits
from crawlstream.model.url import host_of, unlikely_host
from crawlstream.plugins.handlers import Handler, installed
from crawlstream.wire import jsontext
from crawlstream.wire.request_tables import read_rows
from crawlstream.wire.requests import decode
from crawlstream_cli.common.words import in_words

_MOST_TOLD = 20
_MOST_CRAWLS = 2
"""Number of crawls to keep: enough to distinguish one from several."""


@dataclass(frozen=True, slots=True)
class FoundSeed:
    """Content of one place in the input."""

    place: str
    """``line 3`` in a file of lines or rows, ``request 3`` in a document."""
    request: Mapping[str, Any] | None
    problem: str = ""
    """Reason why it is not an object; empty if it is."""


@dataclass(slots=True)
class Checked:
    """Results of the check so far."""

    limits: RequestLimits
    kinds: Sequence[Handler] = field(default_factory=installed)
    """Kinds of requests from plugins."""
    good: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)
    """The first of them, each with its place."""
    warnings: dict[str, None] = field(default_factory=dict)
    crawls: set[str] = field(default_factory=set)
    """Two of the crawls that are fed, at most."""

    def takes(self, found: FoundSeed) -> bool:
        """Return whether the cluster would accept it; note the result in any case."""
        try:
            self._check(found)
        except InvalidRequest as error:
            self.refused += 1
            if len(self.problems) < _MOST_TOLD:
                sentence = "; ".join(map(in_words, error.problems))
                self.problems.append(f"{found.place}: {sentence}")
            return False
        self.good += 1
        return True

    def _check(self, found: FoundSeed) -> None:
        if found.request is None:
            raise InvalidRequest(Refusal.NOT_JSON, [found.problem])
        try:
            request = decode(jsontext.dumps(found.request), limits=self.limits)
        except InvalidRequest:
            if any(kind.schema.fits(found.request) for kind in self.kinds):
                return
            raise
        if isinstance(request, CrawlRequest):
            if len(self.crawls) < _MOST_CRAWLS:
                self.crawls.add(request.crawlid)
            unlikely = unlikely_host(host_of(request.url))
            if unlikely and len(self.warnings) < _MOST_TOLD:
                self.warnings.setdefault(f"{found.place}: {unlikely}")


def read_found(lines: Iterable[bytes], *, is_table: bool) -> Iterator[FoundSeed]:
    """Return the requests in lines of JSON, in one JSON document, or in a table.

    InvalidRequest if the input can be read as none of these.
    """
    if is_table:
        return (FoundSeed(f"line {number}", row) for number, row in read_rows(lines))
    return _of_json(lines)


def _of_json(lines: Iterable[bytes]) -> Iterator[FoundSeed]:
    """Yield one request per line; all lines are one document if the first is incomplete."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    for number, line in numbered:
        place = f"line {number}"
        try:
            document = jsontext.loads(line)
        except ValueError as error:
            if number > 1:
                yield FoundSeed(place, None, f"not JSON: {error}")
                continue
            document = _whole(b"".join([line, *(rest for _, rest in numbered)]))
        if isinstance(document, list):
            yield from (_one(f"request {n}", each) for n, each in enumerate(document, 1))
        else:
            yield _one(place, document)


def _whole(text: bytes) -> object:
    try:
        return jsontext.loads(text)
    except ValueError as error:
        raise InvalidRequest(
            Refusal.NOT_JSON,
            [f"the input is neither a JSON document nor one JSON object per line: {error}"],
        ) from error


def _one(place: str, value: object) -> FoundSeed:
    if isinstance(value, dict):
        return FoundSeed(place, value)
    return FoundSeed(place, None, "not a JSON object")
