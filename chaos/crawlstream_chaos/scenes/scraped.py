"""Scrapes during a script: clients of several REST processes, and a crawl of the same sites."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

from crawlstream.model.throttle_table import DEFAULT_CONCURRENCY
from crawlstream.tasks import wait_until
from crawlstream_chaos.facts.facts import FedCrawl
from crawlstream_chaos.facts.scrapes import SCRAPED, ScrapeAnswer, SeenScrapes
from crawlstream_chaos.faults import BACK_S
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scenes.rest_client import RestAnswer, call
from crawlstream_chaos.scripts import is_admitted
from crawlstream_chaos.strikes.extra_processes import extra_process
from crawlstream_cli.local.ports import free_block

CLIENTS = 20
_WAITING_EACH = 150
"""Pages of each site that the crawl waits for."""
_WAITS_S = (0, 1, 4)
_POLLED_S = 5
_PAUSE_S = 0.3
_ENDED_S = 300
"""A scrape has its page or is expired within this: its deadline and two minutes."""
_AT_ONCE = 8
REST = ("rest_service",)


async def scrape_beside(
    round_: Round,
    is_over: asyncio.Event,
    *,
    rest: Sequence[str] = REST,
    env: Mapping[str, str] = MappingProxyType({}),
    ended_s: float = _ENDED_S,
) -> None:
    """Clients scrape pages of all sites, at two REST processes; a crawl waits for the same sites.

    At the end, a third process that has seen nothing of it has to answer, too. ``rest`` and ``env``
    are the module and the environment of both further processes; ``ended_s``: seconds to wait for a
    scrape.
    """
    crawl = await _crawl_beside(round_)
    async with _another(round_, *rest, **env) as other:
        ports = [round_.cluster.settings.rest_port, other]
        scraping = _Scraping(round_, ports, ended_s)
        with suppress(TimeoutError):
            await wait_until(partial(is_admitted, round_, crawl), timeout_s=60, every_s=0.2)
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(scraping.be_client(number, is_over))
            await is_over.wait()
            scraping.until = time.monotonic() * 1000
        await scraping.have_ended()
        async with _another(round_, *rest, **env) as fresh:
            round_.scrapes = await scraping.judged([*scraping.ports, fresh])


async def _crawl_beside(round_: Round) -> FedCrawl:
    """Feed more pages of each site than its rule allows in the time."""
    web = round_.cluster.web
    urls = [f"{web.origin(h)}/beside/{n}" for n in range(_WAITING_EACH) for h in web.hosts]
    name = f"{round_.name}-all-{web.port}"
    fed = FedCrawl(crawlid=name, delivered=dict.fromkeys(urls, 404))
    await round_.feed(fed, *urls, maxdepth=0)
    return fed


@asynccontextmanager
async def _another(round_: Round, *module: str, **env: str) -> AsyncIterator[int]:
    """Run one more REST process; yield its port when it is ready."""
    port = free_block(1)
    env = {"CRAWLSTREAM_REST_PORT": str(port), **env}
    async with extra_process(round_.context, *module, **env):
        await _until_ready(port)
        yield port


async def _until_ready(port: int) -> None:
    async def is_ready() -> bool:
        return (await call(port, "GET", "/health/ready")).status == 200

    await wait_until(is_ready, timeout_s=BACK_S, every_s=0.2)


@dataclass(slots=True)
class _Scraping:
    """Clients that scrape at some processes, and the answers that they got."""

    round_: Round
    ports: Sequence[int]
    ended_s: float
    since: float = field(default_factory=lambda: time.monotonic() * 1000)
    until: float = 0.0
    answers: list[ScrapeAnswer] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    seeds: Sequence[Mapping[str, Any]] = ()
    """Requests that REST has fed."""

    @property
    def app(self) -> str:
        """An application of this round's own."""
        return f"scrapes-{self.round_.name}-{self.round_.seed}"

    async def be_client(self, number: int, is_over: asyncio.Event) -> None:
        """Scrape one new page after the other, and ask for each until it has come."""
        random = Random(f"{self.round_.seed}/scrapes/{number}")
        web = self.round_.cluster.web
        while not is_over.is_set():
            port, host = random.choice(self.ports), random.choice(web.hosts)
            url = f"{web.origin(host)}{SCRAPED}{next(self.numbers)}"
            wait_s = random.choice(_WAITS_S)
            order = {"url": url, "appid": self.app, "formats": ["raw"], "wait": wait_s}
            answer = await call(port, "POST", "/v2/scrape", order)
            if answer.status in {200, 202}:
                self._note(answer.data["id"], port, answer)
            if answer.status == 202:
                await self._until_done(answer.data["id"], random)
            elif answer.status != 200:
                with suppress(TimeoutError):
                    pause_s = min(answer.retry_after_s, 1) if answer.status else _PAUSE_S
                    await asyncio.wait_for(is_over.wait(), pause_s)

    async def _until_done(self, name: str, random: Random) -> None:
        """Ask for a page at any process until one has it; the laws name those that have none."""
        until = time.monotonic() + self.ended_s
        while time.monotonic() < until:
            port = random.choice(self.ports)
            answer = await call(port, "GET", f"/v2/scrape/{name}?formats=raw&wait={_POLLED_S}")
            if answer.status in {200, 404}:
                self._note(name, port, answer)
                return
            await asyncio.sleep(_PAUSE_S)

    def _note(self, name: str, port: int, answer: RestAnswer) -> None:
        self.answers.append(_seen(name, port, answer))

    async def have_ended(self) -> None:
        """Wait until there is a reply about each seed that was fed, or as long as one may take."""
        recorder = self.round_.cluster.recorder
        fed = await asyncio.to_thread(recorder.values, "incoming")
        self.seeds = [seed for seed in fed if seed.get("appid") == self.app]
        wanted = {seed["uuid"] for seed in self.seeds}

        def is_replied() -> bool:
            replies = recorder.records("outbound_firehose", action="page", appid=self.app)
            return wanted <= {reply.value["uuid"] for reply in replies}

        with suppress(TimeoutError):
            await wait_until(is_replied, timeout_s=self.ended_s, every_s=0.5)

    async def judged(self, ports: Sequence[int]) -> SeenScrapes:
        """Ask each process for each scrape, and return all that was seen."""
        await asyncio.gather(*map(_until_ready, ports))
        turns, final = asyncio.Semaphore(_AT_ONCE), list[ScrapeAnswer]()

        async def ask(name: str, port: int) -> None:
            async with turns:
                answer = await call(port, "GET", f"/v2/scrape/{name}?formats=raw&wait=10")
            final.append(_seen(name, port, answer))

        fed = {seed["uuid"]: seed["url"] for seed in self.seeds}
        await asyncio.gather(*(ask(name, port) for name in fed for port in ports))
        recorder = self.round_.cluster.recorder
        crawlids = sorted({seed["crawlid"] for seed in self.seeds})
        return SeenScrapes(
            share=self.round_.cluster.settings.scrape_share,
            room=max(int(self.round_.cluster.settings.scrape_share * DEFAULT_CONCURRENCY), 1),
            since=self.since,
            until=self.until,
            fed=fed,
            answers=self.answers,
            final=final,
            processes=ports,
            records=[record for name in crawlids for record in recorder.crawl(name)],
        )


def _seen(name: str, port: int, answer: RestAnswer) -> ScrapeAnswer:
    data = answer.data or {}
    return ScrapeAnswer(
        id=name,
        process=port,
        at=time.monotonic() * 1000,
        status=answer.status,
        state=data.get("state", ""),
        reason=data.get("reason") or "",
        page=data.get("page", {}),
    )
