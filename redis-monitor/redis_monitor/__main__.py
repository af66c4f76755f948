"""The command ``redis-monitor``.

The predecessor's flags are accepted; its settings files are not: settings come from the
environment and ``.env``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from redis_monitor.process import run

EXIT_CONFIG = 2
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says how it went."""
    options = _parser().parse_args(arguments)
    try:
        asyncio.run(run(load_settings(**_overrides(options))))
    except ConfigError as error:
        sys.stderr.write(f"redis-monitor: {error}\n")
        return EXIT_CONFIG
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="redis-monitor", description="Answers, endings, and the care of the frontier."
    )
    parser.add_argument("-s", "--settings", metavar="FILE", help="accepted and ignored")
    parser.add_argument("-ll", "--log-level", choices=_LEVELS, help="default: LOG_LEVEL")
    parser.add_argument("-lf", "--log-file", action="store_true", help="accepted and ignored")
    parser.add_argument("-lj", "--log-json", action="store_true", help="write logs as JSON lines")
    return parser


def _overrides(options: argparse.Namespace) -> Mapping[str, object]:
    given = {"LOG_LEVEL": options.log_level, "LOG_JSON": options.log_json or None}
    return {name: value for name, value in given.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
