"""Serve the bundled site: ``python -m crawlstream_cli.demo --port 8000 --log visits.jsonl``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from crawlstream.errors import CrawlstreamError
from crawlstream_cli.demo.site import serve
from crawlstream_cli.demo.web import LOCAL_HOSTS_FROM, Web


def main() -> int:
    """Run the site until it is stopped; 1 with one sentence if it cannot start."""
    options = _options()
    web = Web(
        options.port,
        hosts=options.hosts,
        pages=options.pages,
        seed=options.seed,
        first_host=options.first_host,
        slow_pages=options.slow_pages,
        slow_s=options.slow_s,
        page_bytes=options.page_bytes,
        further=options.further,
        moves_robots=options.moves_robots,
        noindex=options.noindex,
        reserved=options.reserved,
        priced=options.priced,
        scheme="https" if options.certificate else "http",
    )
    try:
        # uvloop reads past the sockets that know when data arrived.
        asyncio.run(_until_stopped(web, options.log, options.certificate))
    except CrawlstreamError as error:
        sys.stderr.write(f"crawlstream: {error}\n")
        return 1
    return 0


async def _until_stopped(web: Web, log_file: Path, certificate: Path | None) -> None:
    serving = asyncio.create_task(serve(web, log_file, certificate))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        return


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m crawlstream_cli.demo", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True, help="access log, JSON lines")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--pages", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-host", default=LOCAL_HOSTS_FROM)
    parser.add_argument("--slow-pages", type=int, default=1)
    parser.add_argument("--slow-s", type=float, default=1.0)
    parser.add_argument("--page-bytes", type=int, default=0)
    parser.add_argument("--further", type=int, default=0)
    parser.add_argument("--moves-robots", type=int, default=0)
    parser.add_argument("--noindex", type=int, default=0)
    parser.add_argument("--reserved", type=int, default=0)
    parser.add_argument("--priced", type=int, default=0)
    parser.add_argument("--certificate", type=Path, help="PEM with its key: the site is https")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
