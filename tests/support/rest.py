"""A REST process between real servers, and the least client that can talk to it, for tests."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crawlstream_cli.local.ports import free_block
from support.monitors import MonitorCluster, MonitorProcess

_TIMEOUT_S = 60
JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        """Return the data of the envelope; the answer must be a success."""
        assert self.value["status"] == "SUCCESS", self.value
        return self.value["data"]

    @property
    def error(self) -> Any:
        """Why there is no data; the answer is a refusal in the one form that there is."""
        assert set(self.value) == {"status", "data", "error"}, self.value
        assert (self.value["status"], self.value["data"]) == ("FAILURE", None)
        return self.value["error"]


class RestProcess:
    """A service that runs, by its port."""

    def __init__(self, process: MonitorProcess, port: int) -> None:
        self.process = process
        self.port = port

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, object] | list[Any] | None = None,
        **headers: str,
    ) -> Answer:
        """Make one request; a body that is a value is sent as JSON."""
        return await asyncio.to_thread(self._call, method, path, body, headers)

    async def get(self, path: str, **headers: str) -> Answer:
        """Read."""
        return await self.call("GET", path, None, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """Write."""
        return await self.call("POST", path, body, **headers)

    def _call(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body, sent = json.dumps(body).encode(), {**JSON, **sent}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()


@contextmanager
def running_rest(
    cluster: MonitorCluster, folder: Path, *, until: str = "ready", **env: str
) -> Iterator[RestProcess]:
    """Run a service for the length of the block, beginning when it is ``ready`` or ``live``."""
    port = free_block(1)
    settings = {**cluster._env, "CRAWLSTREAM_REST_PORT": str(port), **env}
    process = MonitorProcess("rest_service", env=settings, log=folder / f"rest-{port}.log")
    service = RestProcess(process, port)
    with process.running():
        deadline = time.monotonic() + _TIMEOUT_S
        while not _is(until, service):
            assert process.is_running(), process.logged()
            assert time.monotonic() < deadline, process.logged()
            time.sleep(0.1)
        yield service


@contextmanager
def rest_beside_monitors(
    cluster: MonitorCluster, folder: Path, *, wait_s: int, **env: str
) -> Iterator[RestProcess]:
    """A service with both monitors and no crawler; it waits ``wait_s`` seconds for replies."""
    waits = {"WAIT_FOR_RESPONSE_TIME": str(wait_s)}
    with (
        cluster.kafka_monitor(),
        cluster.redis_monitor(),
        running_rest(cluster, folder, **waits, **env) as service,
    ):
        yield service


def _is(state: str, service: RestProcess) -> bool:
    try:
        return service._call("GET", f"/health/{state}", None, {}).status == 200
    except OSError:
        return False


def odd_times(data: Any, place: str) -> Iterator[str]:
    """Yield the times of a response that have another form than docs/rest.md says."""
    for name, value in _leaves(data, place):
        if isinstance(value, str):
            is_odd = re.match(r"\d{4}-\d\d-\d\d[T ]", value) is not None
        else:
            milliseconds = name.endswith("_ms")
            wrong = time.time() * (1 if milliseconds else 1000)
            is_odd = abs(value / wrong - 1) < 0.1
        if is_odd:
            yield f"{name}: {value}"


def _leaves(data: Any, place: str) -> Iterator[tuple[str, str | float]]:
    """Yield texts and numbers of a response, with their places."""
    if isinstance(data, dict):
        for name, value in data.items():
            # Records of Kafka have the fields of their topic; `life` counts restarts.
            if name not in {"value", "life"}:
                yield from _leaves(value, f"{place}.{name}")
    elif isinstance(data, list):
        for value in data:
            yield from _leaves(value, place)
    elif isinstance(data, str | int | float):
        yield place, data
