"""Proxies tried by the crawler's own client, which is another program: libcurl is known to it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import orjson

from crawlstream.errors import SetupError
from crawlstream.frontier.codec.pools import pack_pools
from crawlstream.model.egress.pools import Pool, PoolTable


def check_all(
    pool: Pool, url: str, *, expect: str | None, timeout_s: float, at_once: int
) -> list[dict[str, Any]]:
    """A verdict for each proxy: ``id``, ``url`` (masked), ``ok``, ``result`` and ``ms``.

    Passwords go through a pipe: arguments can be seen by other users of the machine.
    """
    wish = {"url": url, "expect": expect, "timeout_s": timeout_s, "at_once": at_once}
    table = pack_pools(PoolTable(pools={pool.name: pool}))
    done = subprocess.run(
        [sys.executable, "-m", "crawling.client.check", orjson.dumps(wish).decode()],
        input=table,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise SetupError(f"the check has failed: {done.stderr.decode(errors='replace')[-500:]}")
    verdicts: list[dict[str, Any]] = [orjson.loads(line) for line in done.stdout.splitlines()]
    return verdicts
