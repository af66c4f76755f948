"""The command ``redis-monitor``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from crawlstream.boot.options import EXIT_CONFIG, common_options, settings_of
from crawlstream.errors import ConfigError
from redis_monitor.process import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says how it went."""
    parser = argparse.ArgumentParser(
        prog="redis-monitor",
        description="Answer actions, end runs and maintain the frontier.",
        parents=[common_options()],
    )
    options = parser.parse_args(arguments)
    try:
        asyncio.run(run(settings_of(options)))
    except ConfigError as error:
        sys.stderr.write(f"redis-monitor: {error}\n")
        return EXIT_CONFIG
    return 0


if __name__ == "__main__":
    sys.exit(main())
