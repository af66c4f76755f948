"""Start and end of every process: wait, answer health checks, obey a stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from crawlstream.boot import health
from crawlstream.boot.garbage import OBJECTS_A_LOOK, collect_seldom
from crawlstream.boot.health import Health
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.errors import ConfigError, KafkaUnavailable
from crawlstream_cli.local.ports import free_block


async def _get(port: int, path: str, *, host: str | None = None) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    named = "" if host is None else f"Host: {host}\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\n{named}\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ("said", "status", "word"),
    [
        (Health(), 200, b'"ok"'),
        (Health(waiting_for="Kafka"), 200, b'"waiting"'),
        (Health(problem="a log has lost its end"), 200, b'"problem":"a log has lost its end"'),
        (Health(problem="a log has lost its end"), 200, b'"degraded"'),
        (Health(alive=False, waiting_for="Kafka"), 503, b'"dead"'),
    ],
)
async def test_health_tells_waiting_from_dead(said: Health, status: int, word: bytes) -> None:
    """A process that waits for a service must not be restarted for it; a dead one must."""
    port = free_block(1)
    async with health.serve(port, lambda: said):
        assert await _get(port, "/health") == (status, await _body_with(port, word))


@pytest.mark.parametrize(
    ("said", "live", "ready"),
    [
        (Health(), 200, 200),
        (Health(waiting_for="Kafka"), 200, 503),
        (Health(problem="a log has lost its end"), 200, 200),
        (Health(alive=False), 503, 503),
    ],
)
async def test_a_probe_may_ask_for_life_or_for_use(said: Health, live: int, ready: int) -> None:
    """A process that waits is not to be restarted, and not to be counted on either."""
    port = free_block(1)
    async with health.serve(port, lambda: said, host="0.0.0.0"):
        assert (await _get(port, "/health/live"))[0] == live
        assert (await _get(port, "/health/ready"))[0] == ready


async def test_an_address_of_another_machine_is_one_sentence() -> None:
    """Health cannot be served where this machine is not."""
    with pytest.raises(ConfigError, match=r"CRAWLSTREAM_METRICS_HOST: 192\.0\.2\.1"):
        async with health.serve(free_block(1), Health, host="192.0.2.1"):
            pass


async def _body_with(port: int, word: bytes) -> bytes:
    _status, body = await _get(port, "/health")
    assert word in body
    return body


async def test_metrics_and_unknown_pages() -> None:
    """Metrics are served with health; anything else is not found, and garbage closes the line."""
    port = free_block(1)
    async with health.serve(port, Health):
        status, body = await _get(port, "/metrics")
        assert status == 200
        assert b"python_info" in body
        assert (await _get(port, "/secret"))[0] == 404
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\r\n" + b"x" * 20_000 + b"\r\n\r\n")
        await reader.read()
        writer.close()
        assert (await _get(port, "/health"))[0] == 200


@pytest.mark.parametrize(
    ("listens_on", "name", "status"),
    [
        ("127.0.0.1", "localhost:9100", 200),
        ("127.0.0.1", "127.0.0.1", 200),
        ("127.0.0.1", "[::1]:9100", 200),
        ("127.0.0.1", "evil.test", 403),
        ("127.0.0.1", "[::1].evil.test", 403),
        ("127.0.0.1", "localhost.evil.test:9100", 403),
        ("127.0.0.1", "", 403),
        ("0.0.0.0", "crawler-0.crawlers.svc", 200),
    ],
)
async def test_no_page_of_the_web_reads_a_loopback(listens_on: str, name: str, status: int) -> None:
    """A name of its owner's that points here is refused; beyond loopback any name is answered."""
    port = free_block(1)
    async with health.serve(port, Health, host=listens_on):
        for path in ("/metrics", "/health/live"):
            assert (await _get(port, path, host=name))[0] == status


async def test_whoever_is_silent_keeps_nobody_from_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest of too many connections is closed; the rest of them end by their deadline."""
    monkeypatch.setattr(health, "REQUEST_TIMEOUT_S", 0.5)
    port = free_block(1)
    async with health.serve(port, Health):
        crowd = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(health.MAX_CONNECTIONS + 50)
        ]
        assert (await _get(port, "/health"))[0] == 200
        async with asyncio.timeout(5):
            for reader, writer in crowd:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()


async def test_a_taken_port_is_one_sentence() -> None:
    """The error of the second process on a port names the variable and the port."""
    port = free_block(1)
    async with health.serve(port, Health):
        with pytest.raises(
            ConfigError, match=f"CRAWLSTREAM_METRICS_PORT: port {port} is already in use"
        ):
            async with health.serve(port, Health):
                pass


async def test_waiting_ends_when_the_service_answers() -> None:
    """Failures that time heals are waited out; the first answer is handed on."""
    failures = [KafkaUnavailable(), ConnectionRefusedError()]

    async def attempt() -> str:
        if failures:
            raise failures.pop()
        return "ready"

    assert await until_ready("kafka", attempt) == "ready"


async def test_waiting_does_not_hide_defects() -> None:
    """An error that no waiting heals comes out at once."""

    async def attempt() -> None:
        raise ConfigError("wrong")

    with pytest.raises(ConfigError):
        await until_ready("kafka", attempt)


async def test_a_stop_ends_the_waiting() -> None:
    """SIGTERM while a service is away ends the process in peace."""
    stop = Stop()

    async def attempt() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise KafkaUnavailable

    with pytest.raises(SystemExit) as ended:
        await until_ready("kafka", attempt, stop=stop)
    assert ended.value.code == 0


@pytest.fixture
def usual_collector() -> Iterator[None]:
    """Python's own habits again afterwards."""
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)
    gc.unfreeze()


@pytest.mark.usefixtures("usual_collector")
def test_garbage_in_cycles_is_found_in_time() -> None:
    """Objects that only refer to themselves are gone before many more objects have come."""
    collect_seldom()
    ring = {asyncio}
    held: list[object] = [ring]
    held.append(held)
    gone = weakref.ref(ring)
    del ring, held
    kept: list[list[None]] = []
    while gone() is not None and len(kept) <= 2 * OBJECTS_A_LOOK:
        kept.append([None])
    assert OBJECTS_A_LOOK / 2 < len(kept) <= 2 * OBJECTS_A_LOOK


HOLES = """
import sys
from crawlstream.boot.garbage import return_large_blocks
if "return" in sys.argv:
    return_large_blocks()

def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

bytearray(24 << 20)
large, small, before = [], [], resident_mib()
for _ in range(40):
    large.append(b"x" * (3 << 20))
    small.append(b"x" * 100_000)
del large
print(resident_mib() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="as Linux tells it")
def test_memory_of_large_blocks_goes_back_though_small_ones_lie_between() -> None:
    """No part of 120 MiB in large blocks stays resident when only small ones are in use."""
    argv = [sys.executable, "-c", HOLES, "return"]
    told = subprocess.run(argv, check=True, timeout=60, stdout=subprocess.PIPE).stdout
    assert int(told) < 20
