"""Termination notices: release the pages before the machine is taken away.

Spot and preemptible machines get a notice before they end: 120 s on Amazon, 30 s on Google and
Azure. If nothing turns it into SIGTERM, the crawler looks for the notice itself, where
``CRAWLSTREAM_NOTICE`` says: ``aws``, ``gcp`` and ``azure`` query the machine's metadata service,
``file:PATH`` waits for a file, and ``package.module.name`` is a :class:`Look` of your own.

A notice drains the worker as SIGTERM does. Pages still in flight :data:`LAST_S` seconds before the
end are released, so that other workers need not wait for this worker's deadline.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit  # noqa: TID251  settings, of any scheme

import structlog
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

from crawling.runtime.worker import Worker
from crawlstream.boot.settings import Settings
from crawlstream.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

LOOK_EVERY_S = 2.0
LAST_S = 8.0
"""Seconds left for the releases to reach Redis, and for a late look."""
_ANSWER_S = 1.5
_ANSWER_BYTES = 65_536
_TOKEN_LIVES_S = "21600"  # noqa: S105  seconds, as Amazon's header has them

Look = Callable[[], bool]
"""True if the end has been announced. It may block for a second or two. An exception means that
the answer is unknown."""

log = structlog.get_logger()


class MachineMetadata:
    """The metadata service of one machine; answers are small and take at most seconds.

    Requests bypass the crawl's guard and go only to the address of the operator's setting. They
    use no proxy and follow no redirect.
    """

    def __init__(self, base: str) -> None:
        """``base`` is ``http://host[:port]``."""
        self._place = urlsplit(base).netloc

    def request(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, str]:
        """Return status and text; OSError or HTTPException where there is no answer.

        In the names of headers ``_`` stands for ``-``.
        """
        connection = http.client.HTTPConnection(self._place, timeout=_ANSWER_S)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, headers=sent)
            response = connection.getresponse()
            return response.status, response.read(_ANSWER_BYTES).decode("utf-8", "replace")
        finally:
            connection.close()


class Amazon:
    """EC2's ``spot/instance-action``, by IMDSv2: 404 until the interruption is announced."""

    def __init__(self, metadata: MachineMetadata) -> None:
        self._metadata = metadata
        self._token = ""

    def __call__(self) -> bool:
        """Look once; the next look renews an expired token."""
        if not self._token:
            status, token = self._metadata.request(
                "/latest/api/token",
                method="PUT",
                X_aws_ec2_metadata_token_ttl_seconds=_TOKEN_LIVES_S,
            )
            self._token = _expect(status, token)
        status, _action = self._metadata.request(
            "/latest/meta-data/spot/instance-action", X_aws_ec2_metadata_token=self._token
        )
        if status == 401:
            self._token = ""
        elif status != 404:
            _expect(status, "")
        return status == 200


class Google:
    """Compute Engine's ``preempted``: TRUE once the machine is being taken."""

    def __init__(self, metadata: MachineMetadata) -> None:
        self._metadata = metadata

    def __call__(self) -> bool:
        """Look once."""
        answer = self._metadata.request(
            "/computeMetadata/v1/instance/preempted", Metadata_Flavor="Google"
        )
        return _expect(*answer).strip() == "TRUE"


class Azure:
    """Azure's scheduled events that end this machine; a scale set's list names all of its own."""

    _ENDS = frozenset({"Preempt", "Terminate", "Redeploy"})

    def __init__(self, metadata: MachineMetadata) -> None:
        self._metadata = metadata
        self._name = ""

    def __call__(self) -> bool:
        """Look once."""
        if not self._name:
            self._name = self._ask(
                "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            )
        told = json.loads(self._ask("/metadata/scheduledevents?api-version=2020-07-01"))
        return any(
            event["EventType"] in self._ENDS and self._name in event["Resources"]
            for event in told.get("Events", ())
        )

    def _ask(self, path: str) -> str:
        return _expect(*self._metadata.request(path, Metadata="true"))


class NoticeFile:
    """A file that another program creates, such as a container's hook before its stop.

    A file that is older than this process was meant for the process before it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.time()

    def __call__(self) -> bool:
        """Look once."""
        try:
            return self._path.stat().st_mtime >= self._began
        except FileNotFoundError:
            return False


def _expect(status: int, text: str) -> str:
    if status != 200:
        raise ValueError(f"the metadata service responded with status {status}")
    return text


_CLOUDS: Mapping[str, tuple[Callable[[MachineMetadata], Look], float]] = {
    "aws": (Amazon, 120.0),
    "gcp": (Google, 30.0),
    "azure": (Azure, 30.0),
}
"""Look of each cloud, and the seconds between its notice and the end."""
_USUAL_S = 30.0


def look_of(settings: Settings) -> tuple[Look, float] | None:
    """Return the look and the seconds between notice and end; None if ``NOTICE`` is not set."""
    kind, _, rest = settings.notice.partition(":")
    if not kind:
        return None
    usual_s = _USUAL_S
    if kind in _CLOUDS:
        cloud, usual_s = _CLOUDS[kind]
        look = cloud(MachineMetadata(settings.notice_url))
    else:
        look = NoticeFile(Path(rest)) if kind == "file" else load_object(kind)
    return look, settings.notice_s or usual_s


class Watcher:
    """Scrapy extension: looks every ``LOOK_EVERY_S``, and drains the worker in time."""

    def __init__(self, crawler: Crawler, look: Look, notice_s: float) -> None:
        self._crawler = crawler
        self._look = look
        self._notice_s = notice_s
        self._knows = True
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Watcher:
        """Create the extension for Scrapy; NotConfigured if ``NOTICE`` is not set."""
        found = look_of(crawler.settings["CRAWLSTREAM"])
        if found is None:
            raise NotConfigured
        watcher = cls(crawler, *found)
        crawler.signals.connect(watcher._opened, signals.spider_opened)
        crawler.signals.connect(watcher._closed, signals.spider_closed)
        return watcher

    def _opened(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    async def _closed(self) -> None:
        if self._watching:
            await end([self._watching])

    async def _watch(self) -> None:
        is_announced = False
        while not is_announced:
            await asyncio.sleep(LOOK_EVERY_S)
            is_announced = await self._is_announced()
        worker = self._crawler.get_extension(Worker)
        assert worker is not None, "an add-on adds both"
        worker.leave("notice", within_s=max(0.0, self._notice_s - LOOK_EVERY_S - LAST_S))

    async def _is_announced(self) -> bool:
        try:
            is_announced = await asyncio.to_thread(self._look)
        except Exception as error:  # noqa: BLE001  another look may know
            if self._knows:
                log.warning("stop", outcome="notice_unknown", error=repr(error))
            self._knows = False
            return False
        self._knows = True
        return is_announced
