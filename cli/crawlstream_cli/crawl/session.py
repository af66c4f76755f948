"""A crawl from its introduction to its end: fed, followed, or both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from crawlstream import __version__
from crawlstream.boot.loopback import is_loopback
from crawlstream.boot.settings import Settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.egress.render import lanes_of, render_wish
from crawlstream.model.scope import SitemapUse
from crawlstream.model.state import CrawlState
from crawlstream.tasks import beside
from crawlstream_cli.common.absent import absence
from crawlstream_cli.common.cluster_requests import APPID, refusal, request_reply
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_cli.common.follow import Follower
from crawlstream_cli.common.user_agent import placeholder_warning
from crawlstream_cli.common.words import counted
from crawlstream_cli.crawl.ending import Summary
from crawlstream_cli.crawl.line import living_line
from crawlstream_cli.crawl.request_options import is_archive
from crawlstream_cli.crawl.results import results_to
from crawlstream_cli.crawl.watch import CrawlWatch, rule_lines
from crawlstream_cli.crawls import read_crawls
from pipeline_service.formats.files import Crawl

BUNDLED = ("link", "sitemap", "wandering")
"""Spiders without a Scrapy project, whose settings may name another User-Agent."""
_TAKEN_WITHIN_S = 15.0
Requests = Sequence[Mapping[str, Any]]


async def find_crawl(
    settings: Settings, crawlid: str, *, appid: str | None, spider: str
) -> CrawlState:
    """The latest run of the crawl that is meant; CrawlstreamError if none is, or several are."""
    known = await read_crawls(settings, appid=appid)
    found = [state for state in known if state.crawl.crawlid == crawlid]
    if len(found) > 1:
        found = [state for state in found if state.crawl.spiderid == spider] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise CrawlstreamError(
            f"no crawl {crawlid} is known: `{COMMAND} crawls` lists those that are"
        )
    named = ", ".join(f"--appid {one.crawl.appid} -s {one.crawl.spiderid}" for one in found)
    raise CrawlstreamError(f"{len(found)} crawls have the id {crawlid}: say which, by {named}")


class CrawlSession:
    """Reports a crawl on standard error, and stores its results."""

    def __init__(
        self,
        settings: Settings,
        crawl: CrawlKey,
        *,
        output: Path | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        """``hosts`` are those of the seeds."""
        self._settings = settings
        self._crawl = crawl
        self._output = output
        self._hosts = hosts
        self._console = stderr_console()
        self._began = time.monotonic()

    async def follow(self, requests: Requests) -> Summary:
        """Feed the seeds and follow the crawl to its end; who cancels this stops it."""
        await self._introduce(requests)
        async with self._followed(requests) as follower:
            try:
                await follower.run()
            except (asyncio.CancelledError, OSError):  # OSError is raised if the terminal is gone.
                await self._stop()
                raise
        return self._summary(follower)

    async def attach(self, state: CrawlState) -> Summary:
        """Follow a run that began without us; who cancels this leaves it running."""
        run = f"run {state.run} of spider {state.crawl.spiderid}, {state.state}"
        self._tell(f"Crawl {self._crawl.crawlid}: {run}")
        async with self._followed(()) as follower:
            try:
                await follower.attach(state.run, int(state.started_at * 1000))
            except asyncio.CancelledError:
                self._tell(f"It goes on; to stop it: {self._command('stop')}")
                raise
        ending = follower.progress.ending
        assert ending is not None
        return replace(self._summary(follower), seconds=ending["server_time"] - ending["started"])

    async def detach(self, requests: Requests, *, as_json: bool) -> int:
        """Feed the seeds and leave; the exit code, 1 if one was rejected."""
        await self._introduce(requests)
        follower = Follower(self._settings, self._crawl, requests, on_result=lambda *_: None)
        progress = await follower.feed(patience_s=_TAKEN_WITHIN_S)
        for why in progress.refused.values():
            self._tell(f"Rejected: {why}", style="red")
        if as_json:
            told = {"crawlid": self._crawl.crawlid, "refused": progress.refused}
            print_line(orjson.dumps(told).decode())
        else:
            print_line(self._crawl.crawlid)
        if progress.accepted:
            if missing := await absence(self._settings, self._crawl.spiderid):
                self._tell(missing, style="yellow")
            self._tell(f"follow it: {self._command('crawl --attach')}")
            self._tell(f"look at it: {self._command('info')}")
            self._tell(f"stop it: {self._command('stop')}")
        elif not progress.refused:
            self._tell(f"Fed, but no kafka-monitor has taken it yet: see `{COMMAND} status`")
        return 1 if progress.refused else 0

    @asynccontextmanager
    async def _followed(self, requests: Requests) -> AsyncIterator[Follower]:
        console = self._console
        if self._output is not None and self._output.is_file():
            self._tell(f"{self._output} exists: it is replaced when the crawl ends")
        source = Crawl(
            f"crawlstream/{__version__}",
            user_agent=self._settings.user_agent,
            robots="obey" if self._settings.robotstxt_obey else "ignore",
        )
        with results_to(self._output, console, source) as on_result:
            follower = Follower(
                self._settings,
                self._crawl,
                requests,
                on_result=on_result,
                with_requisites=is_archive(self._output),
            )
            watch = CrawlWatch(
                self._settings,
                self._crawl,
                follower.progress,
                hosts=self._hosts,
                lanes=self._lanes_of(requests),
                on_absence=partial(self._tell, style="yellow"),
            )
            async with living_line(console, watch), beside(watch.run()):
                yield follower

    def _lanes_of(self, requests: Requests) -> Sequence[str]:
        wishes = (render_wish(request.get("render")) for request in requests)
        lanes = (lanes_of(self._crawl.spiderid, wish) for wish in wishes)
        return list(dict.fromkeys(chain.from_iterable(lanes)))

    async def _introduce(self, requests: Requests) -> None:
        """Print the facts to know before the first page."""
        seeds = counted(len(requests), "seed")
        self._tell(f"Crawl {self._crawl.crawlid}: {seeds}, {reach(requests[0])}")
        for sentence in await rule_lines(self._settings, self._hosts):
            self._tell(sentence)
        if not all(map(is_loopback, self._hosts)) and self._crawl.spiderid in BUNDLED:
            self._tell(placeholder_warning(self._settings), style="yellow")

    async def _stop(self) -> None:
        """Stop the crawl, as its result is not needed any more."""
        crawl = self._crawl
        request = {
            "action": "stop",
            "appid": crawl.appid,
            "crawlid": crawl.crawlid,
            "spiderid": crawl.spiderid,
        }
        try:
            reply = await request_reply(self._settings, request)
            why = refusal(reply)
        except (CrawlstreamError, asyncio.CancelledError) as error:
            reply, why = {}, str(error) or "interrupted again"
        if why:
            self._tell(f"The crawl may still be running ({why}): {self._command('stop')}")
        else:
            purged = int(reply.get("total_purged", 0))
            were = "was" if purged == 1 else "were"
            self._tell(f"Stopped; {counted(purged, 'queued page')} {were} dropped.")

    def _summary(self, follower: Follower) -> Summary:
        took_s = time.monotonic() - self._began
        return Summary(self._crawl, follower.progress, took_s, self._output)

    def _command(self, verb: str) -> str:
        """Return the command to type about this crawl."""
        crawl = self._crawl
        appid = "" if crawl.appid == APPID else f" --appid {crawl.appid}"
        spider = "" if crawl.spiderid == "link" else f" -s {crawl.spiderid}"
        return f"{COMMAND} {verb} {crawl.crawlid}{appid}{spider}"

    def _tell(self, sentence: str, *, style: str = "") -> None:
        if sentence:
            self._console.print(
                sentence, style=style, markup=False, highlight=False, soft_wrap=True
            )


def reach(request: Mapping[str, Any]) -> str:
    """Return which links are followed, in words."""
    depth = request["maxdepth"]
    if not depth:
        return "no links are followed (--depth 0)"
    where = ", ".join(request.get("allowed_domains", ()))
    where = where or ("URLs of --allow-regex" if "allow_regex" in request else "any host")
    if request.get("sitemaps") == SitemapUse.ONLY:
        return f"pages of sitemaps are fetched, on {where} (--scope); no links are followed"
    return f"links are followed {counted(depth, 'level')} deep, to {where} (--scope)"
