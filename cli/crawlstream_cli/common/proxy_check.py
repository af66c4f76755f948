"""Proxies tried by the crawler's own client, which is another program: libcurl is known to it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson

from crawlstream.errors import SetupError
from crawlstream.model.egress.pools import Pool, PoolTable
from crawlstream_frontier.codec.pools import pack_pools


def check_all(
    pool: Pool, url: str, *, expect: str | None, timeout_s: float, at_once: int
) -> Iterator[dict[str, Any]]:
    """A verdict for each proxy, as it comes: ``id``, ``url`` (masked), ``ok``, ``result``, ``ms``.

    Passwords go through a pipe: arguments can be seen by other users of the machine.
    """
    wish = {"url": url, "expect": expect, "timeout_s": timeout_s, "at_once": at_once}
    arguments = [sys.executable, "-m", "crawling.client.check", orjson.dumps(wish).decode()]
    with (
        tempfile.TemporaryFile() as told,
        subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(pack_pools(PoolTable(pools={pool.name: pool})))
        yield from map(orjson.loads, process.stdout)
        if process.wait():
            told.seek(0)
            said = told.read().decode(errors="replace")
            raise SetupError(f"the check has failed: {said[-500:]}")
