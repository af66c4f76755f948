"""The header of a Lua operation, its code and Python agree on arguments and answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]
import pytest
import pytest_asyncio

from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier import sources
from support.frontier.calls import Call, note_calls
from support.frontier.lua import LUA


def _parts(text: str, sign: str) -> list[str]:
    """A text cut at every comma (or whatever) that stands in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        if letter == sign and not depth:
            parts.append("")
        else:
            depth += (letter in "({") - (letter in ")}")
            parts[-1] += letter
    return parts


@dataclass(frozen=True, slots=True)
class Shape:
    """A list as a header writes it: ``{call, worker [, group]}``; ``{token …}`` of any length."""

    text: str

    @property
    def names(self) -> list[str]:
        """Names of its items, those that may be missing included."""
        text = re.sub(r"[][]", "", self.text)
        return [name.strip() for name in _parts(text, ",")] if text else []

    @property
    def has_any_number(self) -> bool:
        """Return whether it may have any number of items."""
        return re.sub(r"[({].*[)}]", "", self.text).endswith("…")

    def fits(self, items: Sequence[object]) -> bool:
        """Return whether these may be its items."""
        if self.has_any_number:
            return True
        least = len(Shape(self.text.partition("[")[0]).names)
        return least <= len(items) <= len(self.names)


def _shapes(text: str) -> list[Shape]:
    """The lists that a text names, without those in them."""
    found = list[str]()
    for start, letter in enumerate(text):
        depth = text.count("{", 0, start) - text.count("}", 0, start)
        if letter == "{" and not depth:
            found.append(_parts(text[start + 1 :], "}")[0])
    return [Shape(shape) for shape in found]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a header, on one line, and the lists explained below it, by their names."""

    text: str
    lists: Mapping[str, Shape]

    @classmethod
    def of(cls, header: str, name: str) -> Section:
        """The part of this name; empty where there is none."""
        found = re.search(rf"^-- {name}: (.*(?:\n--  .*)*)", header, re.MULTILINE)
        whole = found[1] if found else ""
        text, *below = re.split(r'\n--   (?=\w+ +[{"]|\w+  )', whole)
        named = dict(line.split(None, 1) for line in below)
        lists = {key: _shapes(_line(value))[:1] for key, value in named.items()}
        return cls(_line(text), {key: shapes[0] for key, shapes in lists.items() if shapes})


def _line(text: str) -> str:
    return re.sub(r"\n-- +", " ", text)


class Contract(NamedTuple):
    """The header and the code of one operation."""

    argv: Section
    returns: Section
    code: str

    @property
    def arguments(self) -> int:
        """How many the header numbers."""
        number = 0
        while re.search(rf"(?:^|[,;] ){number + 1} ", self.argv.text):
            number += 1
        return number

    @property
    def packed(self) -> Shape | None:
        """Text that the first argument is packed from."""
        return _shapes(self.argv.text)[0] if self.argv.text.startswith("1 packed {") else None


@cache
def contract_of(operation: str) -> Contract:
    """Header of the file of an operation."""
    text = (LUA / sources.operations()[operation]).read_text()
    header = re.match(r"(?:#.*\n)?(?:--(?!-).*\n)+", text)
    assert header
    section = Section.of(header[0], "KEYS")
    assert section.text == "1 prefix of all keys."
    code = re.sub(r"--.*", "", text)
    return Contract(Section.of(header[0], "ARGV"), Section.of(header[0], "Returns"), code)


OPERATIONS = sorted(sources.operations())
MANY = {"guard", "ledgers", "runs"}
"""Their arguments are any number of names, or of sketches."""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_code_takes_what_the_header_says(operation: str) -> None:
    """Each argument of the header is read, and of a packed one each item has its name."""
    contract = contract_of(operation)
    numbers = {int(number) for number in re.findall(r"\bARGV\[(\d+)\]", contract.code)}
    assert numbers == set(range(1, contract.arguments + 1))
    if contract.packed and contract.packed.has_any_number:
        assert "cmsgpack.unpack(ARGV[1])" in contract.code
    elif contract.packed:
        taken = re.search(r"local ([\w, \n]+?) =\s+unpack\(cmsgpack", contract.code)
        assert taken
        assert len(taken[1].split(",")) == len(contract.packed.names)


Calls = Mapping[str, Sequence[Call]]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def calls(redis_server: RunningServer) -> Calls:
    """Calls of every operation, as the product makes them."""
    seen = defaultdict[str, list[Call]](list)
    for call in await note_calls(redis_server.port):
        seen[call.operation].append(call)
    return seen


def _lists(operation: str, arguments: Sequence[Any]) -> Iterator[tuple[Shape, Sequence[Any]]]:
    """The lists in the packed argument of a call, and the shape of each."""
    contract = contract_of(operation)
    if not contract.packed:
        return
    values = msgpack.unpackb(arguments[0], raw=False, unicode_errors="replace")
    yield contract.packed, values
    by_name = dict(zip(contract.packed.names, values, strict=False))
    for name, shape in contract.argv.lists.items():
        for one in by_name.get(f"{name}s", ()):
            yield shape, one
    for record in by_name.get("records", ()):
        yield contract.argv.lists[record[0]], record


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_python_sends_what_the_header_says(operation: str, calls: Calls) -> None:
    """Sends as many arguments, and items in each list, as the header says."""
    assert calls[operation], "nobody called it"
    for _, arguments, _ in calls[operation]:
        assert len(arguments) == contract_of(operation).arguments or operation in MANY
        for shape, items in _lists(operation, arguments):
            assert shape.fits(items), (shape, items)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_answer_is_what_the_header_says(operation: str, calls: Calls) -> None:
    """A packed answer has as many items as one of those in the header."""
    returns = contract_of(operation).returns
    for _, _, answer in calls[operation]:
        if returns.text.startswith("packed "):
            items = msgpack.unpackb(answer, raw=True, strict_map_key=False)
            assert any(shape.fits(items) for shape in _shapes(returns.text)), items
        else:
            assert isinstance(answer, int | bytes)
