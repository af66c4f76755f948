"""``crawlstream purse``: as the documentation shows it, and with clear errors."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.words.price import Price
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.app import run
from crawlstream_frontier.egress.purses import OK, Buyer
from support.frontier.bench import Bench, open_bench

DOCS = Path(__file__).parents[3] / "docs" / "paying.md"
CENT = 10_000


class Console:
    """A person at a machine of the cluster."""

    def __init__(self, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
        self.bench = bench
        self._capsys = capsys

    async def say(self, command: str, status: int = 0) -> str:
        """Run a command; return what it printed."""
        found = await asyncio.to_thread(run, shlex.split(command))
        said = self._capsys.readouterr()
        assert found == status, said
        return said.out + said.err


@pytest.fixture
async def console(
    redis: Redis,
    redis_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Console:
    """An empty frontier, and the settings that lead to it."""
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(redis_server.port))
    return Console(await open_bench(redis), capsys)


def _documented() -> list[tuple[str, str]]:
    """Each command of the documentation, and what it prints."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL):
        for each in re.split(r"^\$ ./crawlstream ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = each.partition("\n")
            found.append((command, printed))
    return found


async def test_the_commands_of_the_documentation_print_what_it_says(console: Console) -> None:
    """Runs the commands of the guide in order, on a cluster without a purse."""
    assert "no purse" in await console.say("purse list")
    commands = _documented()
    assert [command.split()[1] for command, _ in commands] == ["set", "list", "report"]
    for command, printed in commands:
        assert await console.say(command) == printed
    assert await console.say("purse remove news") == "news is removed\n"


async def test_a_report_has_what_was_spent_and_why_nothing_is(console: Console) -> None:
    """Reports what was spent by day, with and without receipts, and why a purse is closed."""
    await console.say("purse set news --currency USD --day 5 --domains https://x/y", 2)
    await console.say("purse set news --currency USD --day 5 --domains www.Example.com --apps a,b")
    purses = console.bench.frontier.purses
    buyer = Buyer("news", "http://www.example.com:80", "example.com", "b", None)
    assert await purses.quote(buyer, Price("USD", CENT)) == OK
    for sending, charged in {"1": CENT // 2, "2": None, "3": 2 * CENT}.items():
        _, price = await purses.reserve(buyer, sending)
        assert price
        where = "news", buyer.origin, sending
        await purses.settle(*where, price=price, charged=charged)
    told: dict[str, Any] = json.loads(await console.say("purse report news --json"))
    assert list(told.pop("days").values()) == [told["spent"]] == ["USD 0.035"]
    assert (told["apps"], told["domains"]) == (["a", "b"], ["example.com"])
    assert (told["charged"], told["unsettled"], told["overcharged"]) == (
        "USD 0.025",
        "USD 0.01",
        "USD 0.01",
    )
    assert "1 sites are not paid: they charged more" in await console.say("purse report news")
    await console.bench.pretend_restart()
    assert "closed: Redis was restarted" in await console.say("purse list")
    assert await console.say("purse adopt news") == "news pays\n"
    assert told["origins"] == [{"origin": buyer.origin, "charged": "USD 0.025"}]
    said = await console.say("purse report news")
    assert "not paid" not in said
    assert f"charged by     {buyer.origin}: USD 0.025\n" in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("purse set 'a b' --currency USD --day 1", "'a b' is not a name for a purse"),
        ("purse set a --currency usd --day 1", "'usd' is not a currency"),
        ("purse set a --currency USD --day 1e3", "--day '1e3' is not an amount"),
        ("purse set a --currency USD --day 1 --total -1", "--total '-1' is not an amount"),
        ("purse set a --currency USD --day 1 --max-price 0,1", "--max-price '0,1' is not an"),
        ("purse set a --currency USD --day 1 --domains 'a b'", "--domains"),
        ("purse report nobody", "there is no purse 'nobody'"),
        ("purse adopt nobody", "there is no purse 'nobody'"),
        ("purse remove nobody", "there is no purse 'nobody'"),
    ],
)
async def test_errors_say_what_to_do(console: Console, command: str, words: str) -> None:
    """Reports each error in one sentence that says what to do, and changes nothing."""
    said = await console.say(command, 2)
    assert words in " ".join(said.split())
    assert "Traceback" not in said
    assert not await console.bench.frontier.purses.all()
