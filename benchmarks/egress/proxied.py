"""Compare pages per second through one tinyproxy and directly, and the extra CPU time per page."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crawl import MEASURED_S, SYNTHETIC
from lib.crawlers import Speed, Stage, stage
from lib.harness import Benchmark, Figures, Line
from redis.asyncio import Redis

from crawlstream.errors import SetupError
from crawlstream.model.egress.pools import Pool, PoolTable, Proxy
from crawlstream_cli.local.ports import free_block

CONCURRENCY = 64
_CONFIGURATION = """
Port {port}
Listen 127.0.0.1
Timeout 60
MaxClients 400
LogLevel Error
LogFile "{folder}/tinyproxy.log"
PidFile "{folder}/tinyproxy.pid"
Allow 127.0.0.0/8
"""


@asynccontextmanager
async def tinyproxy(folder: str) -> AsyncIterator[int]:
    """Its port."""
    binary = shutil.which("tinyproxy")
    if binary is None:
        raise SetupError("tinyproxy is missing: install it, e.g. `apt-get install tinyproxy-bin`")
    port, path = free_block(1), Path(folder) / "tinyproxy.conf"
    path.write_text(_CONFIGURATION.format(port=port, folder=folder))
    with subprocess.Popen([binary, "-d", "-c", str(path)], stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                await asyncio.sleep(0.1)
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    continue
                writer.close()
                break
            yield port
        finally:
            process.kill()


async def through(on: Stage, table: PoolTable) -> Speed:
    """Measure one cluster crawler, from an empty frontier, with these pools."""
    frontier = await on.prepare()
    await frontier.pools.copy(table)
    crawler = (sys.executable, "-P", "-m", "crawling", "link")
    return await on.speed(crawler, env=on.environment)


async def measure(redis: Redis) -> Figures:
    """Direct, then through the proxy."""
    async with stage(redis, SYNTHETIC, measured_s=MEASURED_S) as on, tinyproxy(on.folder) as port:
        direct = await through(on, PoolTable(czxid=1, mzxid=1))
        proxy = Proxy(scheme="http", host="127.0.0.1", port=port)
        pool = Pool(name="bench", proxies=(proxy,), concurrency=CONCURRENCY)
        table = PoolTable(pools={"bench": pool}, default="bench", czxid=1, mzxid=1)
        proxied = await through(on, table)
    return {
        "proxied_of_direct": proxied.pages_per_s / direct.pages_per_s,
        "more_cpu_ms_a_page": proxied.cpu_ms["crawler"] - direct.cpu_ms["crawler"],
        "direct_per_s": direct.pages_per_s,
        "proxied_per_s": proxied.pages_per_s,
        "direct_cpu_ms": direct.cpu_ms["crawler"],
        "proxied_cpu_ms": proxied.cpu_ms["crawler"],
    }


if __name__ == "__main__":
    Benchmark(
        name="proxied",
        about="Pages through one tinyproxy beside direct: a second, and CPU time of the worker.",
        measure=measure,
        lines={
            "proxied_of_direct": Line(floor=0.7, goal=0.85, unit="", more=True),
            "more_cpu_ms_a_page": Line(floor=1.0, goal=0.5, unit="ms"),
        },
        repetitions=2,
    ).main()
