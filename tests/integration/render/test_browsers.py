"""A browser that does not answer any more is found out and replaced, whatever it holds."""

from __future__ import annotations

import asyncio
import time

import psutil
import pytest

from crawling.render import browser, browsers
from crawlstream.tasks import beside
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.rendering import RenderBench, rendering
from support.crawler.spa import html
from support.waiting import wait_until


def tree_of(bench: RenderBench) -> list[psutil.Process]:
    """The processes of the browser that takes pages now."""
    current = bench.browsers._current
    assert current is not None
    process = psutil.Process(current.running.pid)
    return [process, *process.children(recursive=True)]


def is_there(process: psutil.Process) -> bool:
    """Return whether it runs, or could again."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


async def test_a_frozen_browser_is_found_out_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page fails with a reason at once, the next has another browser; none of it stays."""
    monkeypatch.setattr(browsers, "LOOK_EVERY_S", 0.2)
    loading = html("<script src=/never.js></script>")
    answers = {"/": loading, "/never.js": Answer(after_s=60), "/next": html("<p>next")}
    async with rendering() as bench, beside(bench.browsers.follow()):
        with serving(answers) as site:
            page = asyncio.create_task(bench.reason(site.url("/")))
            await wait_until(lambda: "/never.js" in site.paths())
            frozen = tree_of(bench)
            for process in frozen:
                process.suspend()
            began = time.monotonic()
            with monkeypatch.context() as hasty:
                hasty.setattr(browser, "_ALIVE_S", 1.0)
                assert await page == "render_failed"
            assert time.monotonic() - began < bench.settings.render_timeout / 2
            await wait_until(lambda: not any(map(is_there, frozen)))
            async with bench.browsers.one():
                assert b"next" in (await bench.render(site.url("/next"))).body
