"""The tools of chaos themselves: the bad network, the recorder of Kafka's files, the report."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos.broken import TEXTS
from crawlstream.model.state import FrontierState
from crawlstream_chaos.nemesis import FAULTS
from crawlstream_chaos.proxy import FaultyProxy
from crawlstream_chaos.recorder import AccessLogReader, KafkaLogs
from crawlstream_chaos.report import flatness
from crawlstream_chaos.rounds import Footprint, has_pages
from crawlstream_chaos.runner import Options, problem_of
from crawlstream_chaos.scenarios import SCENARIOS
from crawlstream_chaos.scenes.companions import moved_seeds
from crawlstream_cli.app import run
from crawlstream_cli.demo.access_log import AccessLog, LoggedRequest
from crawlstream_cli.demo.web import Web
from crawlstream_cli.local import home
from crawlstream_cli.local.ports import free_block
from support.frontier.lua import LUA
from support.waiting import WaitUntil


class Echo:
    """A server that returns and records the bytes that it receives."""

    def __init__(self) -> None:
        self.heard = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client until it leaves."""
        while data := await reader.read(100):
            self.heard += data
            writer.write(data)
        writer.close()


@pytest.fixture
def echo() -> Echo:
    """The server behind the proxy."""
    return Echo()


@pytest.fixture
async def proxy(echo: Echo) -> AsyncIterator[FaultyProxy]:
    """A proxy before the echo."""
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxy = FaultyProxy(free_block(1), server.sockets[0].getsockname()[1])
    await proxy.start()
    yield proxy
    await proxy.stop()
    server.close()


class Client:
    """A connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def says(self, text: bytes) -> bytes:
        """Send a text; return the answer, nothing if the connection is lost."""
        self._writer.write(text)
        try:
            return await self._reader.read(100)
        except ConnectionError:
            return b""
        finally:
            if self._reader.at_eof():
                self._writer.close()

    def close(self) -> None:
        """Leave."""
        self._writer.close()


async def connected(proxy: FaultyProxy) -> Client:
    """A client of the echo."""
    return Client(*await asyncio.open_connection("127.0.0.1", proxy.port))


async def test_a_proxy_passes_what_it_is_given(proxy: FaultyProxy) -> None:
    """Bytes come through and back, slowly where it is slow."""
    client = await connected(proxy)
    assert await client.says(b"one") == b"one"
    loop = asyncio.get_running_loop()
    async with proxy.slow(0.1):
        began = loop.time()
        assert await client.says(b"two") == b"two"
        assert loop.time() - began >= 0.2
    client.close()


async def test_a_cut_ends_connections_and_keeps_no_one_out(proxy: FaultyProxy) -> None:
    """The client notices at once, and may come again."""
    client = await connected(proxy)
    assert await client.says(b"one") == b"one"
    proxy.cut()
    assert await client.says(b"two") == b""
    again = await connected(proxy)
    assert await again.says(b"three") == b"three"
    again.close()


async def test_a_mute_proxy_loses_the_reply_after_the_effect(
    proxy: FaultyProxy, echo: Echo, wait_until: WaitUntil
) -> None:
    """The server has received the request, but the client gets no answer."""
    client = await connected(proxy)
    async with proxy.mute():
        asking = asyncio.create_task(client.says(b"do it"))
        await wait_until(lambda: echo.heard == b"do it")
        assert not asking.done()
    assert await asking == b""


async def test_through_a_half_open_proxy_nothing_passes(proxy: FaultyProxy, echo: Echo) -> None:
    """Lets no connection through a half-open proxy, neither old nor new, and cuts both later."""
    client = await connected(proxy)
    assert await client.says(b"one") == b"one"
    async with proxy.half_open():
        late = await connected(proxy)
        asking = [asyncio.create_task(each.says(b"two")) for each in (client, late)]
        done, _ = await asyncio.wait(asking, timeout=0.2)
        assert not done
    assert await asyncio.gather(*asking) == [b"", b""]
    assert echo.heard == b"one"


def batch(base: int, records: int) -> bytes:
    """A record batch as Kafka writes it, its records left out."""
    rest = struct.pack(">ibIhi", 0, 2, 0, 0, records - 1) + bytes(40)
    return struct.pack(">qi", base, len(rest)) + rest


def test_the_end_of_a_log_is_read_from_its_file(tmp_path: Path) -> None:
    """Whole batches count, one that is being written does not, and nothing is read twice."""
    log = tmp_path / "demo.results-3" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(batch(0, 5))
    logs = KafkaLogs(tmp_path, "demo", ["results", "other"])
    assert logs.ends() == {("results", 3): 5}
    torn = batch(5, 2)
    log.write_bytes(log.read_bytes() + torn[:30])
    assert logs.ends() == {("results", 3): 5}
    log.write_bytes(log.read_bytes()[:-30] + torn)
    assert logs.ends() == {("results", 3): 7}


def test_an_access_log_is_read_as_it_grows(tmp_path: Path) -> None:
    """Each line once; a half-written one when it is whole."""
    path = tmp_path / "visits.jsonl"
    reader = AccessLogReader(path)
    assert reader.read() == 0
    log = AccessLog(path)
    for at in range(3):
        log.note(LoggedRequest(at, at, "127.0.0.1", "GET", "/", 200, ""))
        log.flush()
        assert reader.read() == at + 1
    log.close()
    with path.open("ab") as file:
        file.write(b'{"mono": 3')
    assert reader.read() == 3


def footprints(*keys: int, rss: int = 100 << 20) -> list[Footprint]:
    """Rounds with these numbers of keys."""
    return [
        Footprint(keys=number, redis_bytes=1 << 20, rss_bytes={"crawler": rss}) for number in keys
    ]


def test_what_grows_from_round_to_round_is_told() -> None:
    """Keys and memory are flat if they shrink again, and grow if they never do."""
    assert not list(flatness(footprints(10, 20, 90, 40, 42, 41, 95, 40)))
    growing = footprints(10, 10, 10, 10, 10, 90, 95, 100)
    assert [v.what for v in flatness(growing)] == ["keys in Redis: 10, then 90"]
    fat = [*footprints(*[10] * 5), *footprints(*[10] * 3, rss=200 << 20)]
    assert [v.what for v in flatness(fat)] == ["crawler: 100 MiB, then 200 MiB"]


@pytest.mark.parametrize("at", range(5))
def test_a_fault_counts_that_strikes_while_pages_are_anywhere(at: int) -> None:
    """Counts a strike while pages wait anywhere, also in Kafka, and not once all are done."""
    queued, delayed, held, spilled = (int(place == at) for place in range(4))
    state = FrontierState(
        life=1, clock_ms=1, rules_known=True, crawls=1, queued=queued, delayed=delayed, held=held,
        spilled=spilled, workers=1, outbox=0, actions=0,
    )  # fmt: skip
    assert has_pages(state) is (at < 4)


def test_names_of_faults_and_scenarios_do_not_clash() -> None:
    """``--faults`` takes both."""
    assert not set(FAULTS) & set(SCENARIOS)


def test_a_schedule_has_seeds_that_redirect_beside_one_that_does_not() -> None:
    """Each brings one page, and no two the same, so that each firing can be counted."""
    truths = moved_seeds(Web(1, pages=150, hosts=5)).values()
    assert [len(truth.redirected) for truth in truths] == [1, 1, 0]
    assert len({url for truth in truths for url in truth.delivered}) == 3
    assert len(moved_seeds(Web(1, pages=3, hosts=2))) == 1


def test_faults_choose_scenarios() -> None:
    """Scenarios are played as they are named, faults during them in turn, the table as a whole."""

    def named(faults: str) -> list[str]:
        options = Options(
            faults=faults, seconds=1, round_seconds=1, seed=1, pages=1, report=Path("unused")
        )
        return [scenario.name for scenario in options.scenarios]

    assert named("kill-redis,feed,cut-kafka") == ["feed", "chosen"]
    of_one = [name for name, each in SCENARIOS.items() if each.partitions != "several"]
    assert named("table") == of_one
    assert named("table,kill-redis") == [*of_one, "chosen"]


def test_scenarios_and_faults_of_partitions_want_some() -> None:
    """Faults and scenarios of several partitions are refused with one, and the reverse."""
    assert problem_of("kill-redis,home", 3) is None
    assert problem_of("home") == "home is for several partitions: see --partitions"
    assert problem_of("kill-home") == "kill-home is for several partitions: see --partitions"
    assert problem_of("log-truncated", 3) == "log-truncated is for one partition: see --partitions"
    options = Options(
        faults="table", seconds=1, round_seconds=1, seed=1, pages=1, report=Path("unused"),
        partitions=3,
    )  # fmt: skip
    names = {scenario.name for scenario in options.scenarios}
    assert set(SCENARIOS) - names == {"full", "log-truncated"}


def test_crawlers_with_a_browser_run_where_they_are_struck() -> None:
    """Starts crawlers with a browser for scenarios and faults that need one, and on request."""

    def has_renderers(faults: str) -> bool:
        return Options(
            faults=faults, seconds=1, round_seconds=1, seed=1, pages=1, report=Path("unused")
        ).has_renderers

    assert has_renderers("render")
    assert has_renderers("kill-redis,freeze-browser")
    assert not has_renderers("combined,kill-crawler")


@pytest.mark.parametrize(
    ("faults", "sentence"), [("kill-redis,kill-all", "scenario: kill-all;"), (",", "no fault")]
)
def test_an_unknown_fault_is_refused_before_anything_starts(
    faults: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and the exit code is that of a wrong call."""
    assert run(["chaos", "--faults", faults]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("verb", [["chaos"], ["bench", "put"], ["test"], ["check"]])
def test_a_verb_that_needs_the_checkout_says_so_without_one(
    verb: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An image has the package alone: one sentence, and nothing is started."""
    monkeypatch.setattr(home, "repository", lambda: tmp_path)
    assert run(verb) == 1
    told = capsys.readouterr().err
    assert "source checkout" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("name", TEXTS)
def test_what_breaks_a_law_rewrites_what_is_there(name: str) -> None:
    """Each text that is rewritten stands in one place, so that a break is one."""
    assert sum(path.read_text().count(TEXTS[name]) for path in LUA.rglob("*.lua")) == 1
