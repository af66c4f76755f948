"""The header of a Lua operation, its code and Python agree on arguments and answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from crawling.robots.store import Note, RobotsBook
from crawlstream.chaos.processes import RunningServer
from crawlstream.frontier import sources
from crawlstream.frontier.scripts import Scripts
from crawlstream.model.crawl import FiringKey
from crawlstream.model.egress.book import (
    PoolSpend,
    ProxyBan,
    ProxyOutcome,
    ProxyReport,
    ProxyRest,
    ProxyUse,
)
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.recurring.schedule import Fired, Schedule, ScheduleMark, Turn
from crawlstream.model.runs import RunMark
from support.frontier.bench import CRAWL, KEYS, Bench, links, open_bench
from support.frontier.lua import LUA
from support.frontier.machine import run_machine
from support.frontier.witness import Witness

AT = 2_000_000_000
LIVES = 8
"""Together they make every call of a worker, an intake and a monitor."""
CLOCK = 2
"""Arguments that tell what the caller knows of the frontier clock, behind all others."""


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
        """What its items are called, those that may be missing included."""
        text = re.sub(r"[][]", "", self.text)
        return [name.strip() for name in _parts(text, ",")] if text else []

    def fits(self, items: Sequence[object]) -> bool:
        """Whether these may be its items."""
        if re.sub(r"[({].*[)}]", "", self.text).endswith("…"):
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
    """A part of a header, on one line, and the lists that are explained below it, by name."""

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
        """What the first argument is packed from."""
        return _shapes(self.argv.text)[0] if self.argv.text.startswith("1 packed {") else None


@cache
def contract_of(operation: str) -> Contract:
    """What the file of an operation says."""
    text = (LUA / sources.operations()[operation]).read_text()
    header = re.match(r"(?:#.*\n)?(?:--(?!-).*\n)+", text)
    assert header
    section = Section.of(header[0], "KEYS")
    assert section.text == "1 prefix of all keys."
    code = re.sub(r"--.*", "", text)
    return Contract(Section.of(header[0], "ARGV"), Section.of(header[0], "Returns"), code)


OPERATIONS = sorted(sources.operations())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_code_takes_what_the_header_says(operation: str) -> None:
    """Each argument of the header is read, and of a packed one each item has its name."""
    contract = contract_of(operation)
    numbers = {int(number) for number in re.findall(r"\bARGV\[(\d+)\]", contract.code)}
    assert numbers == set(range(1, contract.arguments + 1))
    if contract.packed:
        taken = re.search(r"local ([\w, \n]+?) =\s+unpack\(cmsgpack", contract.code)
        assert taken
        assert len(taken[1].split(",")) == len(contract.packed.names)


class Call(NamedTuple):
    """One call that Python made, and its answer."""

    arguments: tuple[Any, ...]
    answer: Any


Calls = Mapping[str, Sequence[Call]]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def calls(redis_server: RunningServer) -> AsyncIterator[Calls]:
    """Calls of every operation, as the product makes them."""
    seen = defaultdict[str, list[Call]](list)
    call = Scripts._call

    async def noted(self: Scripts, operation: str, args: Sequence[Any]) -> Any:
        answer = await call(self, operation, args)
        is_timed = sources.is_timed(operation)
        arguments = args[:-CLOCK] if is_timed else args
        seen[operation].append(Call(tuple(arguments), answer[0] if is_timed else answer))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scripts, "_call", noted)
        async with Witness(redis_server.port, 1) as redis:
            for seed in range(LIVES):
                await run_machine(redis, seed, 20)
            await _ask(redis)
    yield seen


async def _ask(redis: Redis) -> None:
    """What no random life does."""
    await redis.flushdb()
    bench = await open_bench(redis)
    frontier, robots = bench.frontier, RobotsBook(redis, KEYS)
    await bench.feed.seeds("http://a.example/", "http://a.example/1")
    (hold,) = await bench.worker.lease()
    await bench.worker.session.put_links(hold.token, [links("a.example", range(3))])
    await _shelve(bench)
    await frontier.rules.agree("")
    await frontier.pools.copy(PoolTable())
    await frontier.book.session("w1").exchange(_report(), is_user=True)
    await frontier.handshakes.failed("de", "a.example", "default", ["default", "legacy"])
    await frontier.maintenance.balance()
    await redis.hset(KEYS.tag + "abandon", "1", "0")
    await frontier.maintenance.tend()
    await frontier.queries.state()
    await frontier.queries.crawls(with_domains=True)
    await frontier.overflow.state()
    await frontier.positions.reposition("topic", 0, shown=0, offset=0)
    await frontier.inspector.page(CRAWL, "http://a.example/")
    await frontier.inspector.domain("a.example")
    await _fire(bench)
    await robots.claim("http://a.example", None)
    await robots.write("http://a.example", Note(b"none", 1.0))


def _report() -> ProxyReport:
    """With one of each list."""
    return ProxyReport(
        outcomes={"p": ProxyOutcome(answers=1, through=["a.example"])},
        rests=[ProxyRest("p", "a.example", 1_000, 0)],
        answers=[("p", "a.example")],
        uses=[ProxyUse("p", "a.example", 1, 10, 1_000)],
        spends={"de": PoolSpend(1, 1)},
        bans=[ProxyBan("p", "a.example", 1_000)],
    )


async def _shelve(bench: Bench) -> None:
    bench.shelve(4)
    await bench.frontier.stocking.step()
    await bench.feed.seeds(*(f"long.example/{n}" for n in range(8)))
    await bench.frontier.stocking.step()
    await bench.worker.lease(50)
    await bench.frontier.stocking.step()


async def _fire(bench: Bench) -> None:
    schedules = bench.frontier.schedules
    seeds = [{"url": "http://a.example/"}]
    schedule = Schedule(
        appid="app", name="nightly", cron="30 2 * * *", crawl={"crawlid": "crawl"}, seeds=seeds
    )
    await bench.feed.put(bench.feed.schedule("set", schedule, most=10))
    (state,) = (await schedules.due("me", most=10)).due
    await schedules.begin(state, 1, stops=False)
    await schedules.done(Turn(state=state, last=1, due=-1, fired=Fired(1, CRAWL, 1, 0, 0)))
    over = RunMark(
        crawl=CRAWL, state="finished", run=1, firing=FiringKey("nightly", AT), seen={0: b"\x80"}
    )
    await schedules.remind([over])
    await schedules.reinstate([ScheduleMark(appid="app", name="nightly", removed_ms=1)])


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
    """As many arguments, and as many items in each list, in every call."""
    assert calls[operation], "nobody called it"
    for arguments, _ in calls[operation]:
        assert len(arguments) == contract_of(operation).arguments or operation == "ledgers"
        for shape, items in _lists(operation, arguments):
            assert shape.fits(items), (shape, items)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_answer_is_what_the_header_says(operation: str, calls: Calls) -> None:
    """A packed answer has as many items as one of those in the header."""
    returns = contract_of(operation).returns
    for _, answer in calls[operation]:
        if returns.text.startswith("packed "):
            items = msgpack.unpackb(answer, raw=True, strict_map_key=False)
            assert any(shape.fits(items) for shape in _shapes(returns.text)), items
        else:
            assert isinstance(answer, int | bytes)
