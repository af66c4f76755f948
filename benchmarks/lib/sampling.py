"""Where a crawler process spends its CPU time, told by itself; imported by it as a spider module.

The kernel's timer of CPU time interrupts the main thread every few ms. What that thread has used
since the last time (its own clock, so that nothing is counted twice or lost) is put down to the
part that the innermost known file of its stack belongs to. Threads are counted whole, by their
clocks. The first SIGUSR2 begins, the second ends and writes the file that ``BENCH_SAMPLES`` names.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

EVERY_S = 0.004
"""As often as a kernel looks at such timers."""
OTHER_THREADS = "kafka's threads"

_PLACES = {
    "kafka": ("/kafka/", "/crawlstream/bus/"),
    "exchange": ("/redis/", "/crawlstream_frontier/", "/runtime/lease_loop", "/lease/report"),
    "links, found": tuple(
        f"/crawling/links/{name}" for name in ("extract", "filters", "hrefs", "patterns", "texts")
    ),
    "links, followed": ("/crawling/links/", "/crawling/engine/gathering"),
    "results": ("/crawlstream/wire/results", "/crawling/publish/", "/crawling/spiders/base"),
    "http": (
        *("/crawling/client/", "/crawling/net/", "/engine/download_handler", "/twisted/web/"),
        *("/scrapy/core/downloader/handlers/", "/twisted/internet/tcp", "/twisted/protocols/"),
        *("/twisted/internet/endpoints", "/twisted/internet/abstract", "/twisted/internet/_"),
    ),
    "verdict": ("/crawling/response/", "/crawling/metrics", "/crawlstream/stats/"),
    "holds": ("/crawling/lease/", "/crawling/page/page", "/page/body_budget", "/page/flight"),
    "requests, responses": ("/crawling/page/", "/scrapy/http/", "/runtime/request_source"),
    "lane": ("/crawling/lane/", "/crawling/runtime/way"),
    "loop": ("/twisted/internet/asyncioreactor", "/asyncio/", "/uvloop/", "/scrapy/crawler."),
    "scrapy": ("/scrapy/", "/twisted/", "/pydispatch/", "/crawling/engine/", "/itemadapter/"),
}
"""Files by part, the first that fits; what is called by a part and is in none counts as it."""
PARTS = (*_PLACES, OTHER_THREADS, "others")


class Sampler:
    """The samples of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts = dict.fromkeys(PARTS, 0.0)
        self._known: dict[CodeType, str] = {}
        self._threads: dict[int, float] = {}
        self._process_s = self._last_s = 0.0
        self._is_on = False

    def turn_over(self, *_: object) -> None:
        """Begin, or end and write what there is: CPU seconds by part, and ``all``."""
        self._is_on = not self._is_on
        if self._is_on:
            self._threads, self._process_s = _threads(), time.process_time()
            self._last_s = time.thread_time()
            signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        spent_s = time.process_time() - self._process_s
        threads = _threads()
        self._parts[OTHER_THREADS] = sum(
            now - self._threads.get(ident, 0.0) for ident, now in threads.items()
        )
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({**self._parts, "all": spent_s}))
        new.rename(self._path)

    def take(self, _number: int, frame: FrameType | None) -> None:
        """Record a sample for the time since the last one."""
        now_s = time.thread_time()
        part = ""
        while frame is not None and not part:
            code = frame.f_code
            part = self._known.get(code, "?")
            if part == "?":
                part = self._known[code] = _part_of(code.co_filename)
            frame = frame.f_back
        self._parts[part or "others"] += now_s - self._last_s
        self._last_s = time.thread_time()


def _part_of(file: str) -> str:
    for part, places in _PLACES.items():
        if any(place in file for place in places):
            return part
    return ""


def _threads() -> dict[int, float]:
    """CPU seconds of each thread of Python's but the main one."""
    found = {}
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.ident is not None:
            found[thread.ident] = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return found


if path := os.environ.get("BENCH_SAMPLES"):
    sampler = Sampler(Path(path))
    signal.signal(signal.SIGPROF, sampler.take)
    signal.signal(signal.SIGUSR2, sampler.turn_over)
