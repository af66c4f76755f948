"""Cost of one request: none of 2 MiB takes a REST process a second, or 100 MiB."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import psutil
import pytest

from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest

SIZE = 2 * 1024 * 1024
CPU_S, MEMORY_BYTES = 1.0, 100 * 1024 * 1024
_SEED = {"appid": "budget", "crawlid": "x", "url": "http://127.0.0.1/", "attrs": {"a": "b" * 80}}


def _posted(path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}"
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _in_chunks(path: str, size: int) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close"
    chunk = b"%x\r\n%b\r\n" % (size, b" " * size)
    head += "\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + chunk * (SIZE // len(chunk)) + b"0\r\n\r\n"


def _query(path: str, text: str) -> bytes:
    return f"GET {path}{text} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


HOSTILE = {
    "small chunks": _in_chunks("/feed", 1),
    "brackets": _posted("/feed", b"[" * SIZE),
    "braces": _posted("/feed", b'{"a":' * (SIZE // 5)),
    "a long number": _posted("/feed", b'{"a":' + b"9" * SIZE + b"}"),
    "many fields": _posted("/feed", json.dumps({str(n): n for n in range(120_000)}).encode()),
    "many fields of a poll": _posted(
        "/poll", json.dumps(dict.fromkeys(map(str, range(150_000)), 1)).encode()
    ),
    "seeds": _posted("/v2/check", json.dumps([_SEED] * 10_000).encode()),
    "bad seeds": _posted("/v2/check", json.dumps([{"url": 1}] * 10_000).encode()),
    "lines": _posted("/v2/check", b"{}\n" * (SIZE // 3), "application/x-ndjson"),
    "a table": _posted(
        "/v2/check", b"url," + b"x," * (SIZE // 4) + b"\n" + b"1," * (SIZE // 4), "text/csv"
    ),
    "quotes": _posted("/v2/check", b"url\n" + b'""' * (SIZE // 2), "text/csv"),
    "a cursor": _query("/v2/events?cursor=", ",".join(["0:1"] * 9_000)),
    "a head": _query("/v2/crawls?", "a=%26&" * 10_000),
}


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service."""
    with running_rest(cluster, tmp_path_factory.mktemp("budget")) as service:
        yield service


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_request_costs_more_than_its_budget(rest: RestProcess, name: str) -> None:
    """Whatever it holds, it is answered or cut off, within bounds of CPU time and memory."""
    process = psutil.Process(rest.process.pid)
    spent, held = process.cpu_times(), process.memory_info().rss
    answer = await asyncio.to_thread(_sent, rest.port, HOSTILE[name])
    now = process.cpu_times()
    cpu_s = now.user + now.system - spent.user - spent.system
    assert answer.startswith(b"HTTP/1.1 ") or name == "small chunks"
    assert cpu_s < CPU_S
    assert process.memory_info().rss - held < MEMORY_BYTES


def _sent(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        try:
            one.sendall(request)
            return one.recv(65_536)
        except ConnectionError:
            return b""


async def test_chunks_of_a_usual_size_are_read(rest: RestProcess) -> None:
    """A client that sends line by line, or byte by byte but little, is answered."""
    for size in (16, 1_000):
        answer = await asyncio.to_thread(_sent, rest.port, _in_chunks("/feed", size))
        assert answer.startswith(b"HTTP/1.1 400 ")
    few = _in_chunks("/feed", 1).partition(b"\r\n\r\n")
    request = few[0] + few[1] + b"1\r\n \r\n" * 300 + b"0\r\n\r\n"
    assert (await asyncio.to_thread(_sent, rest.port, request)).startswith(b"HTTP/1.1 400 ")
