"""The command ``rest-service``; settings come from the environment and ``.env``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import uvloop

from crawlstream.boot.local_note import load_process_settings
from crawlstream.errors import ConfigError
from rest_service.process import run

EXIT_CONFIG = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="rest-service", description="The cluster over HTTP.")
    parser.add_argument("-s", "--settings", metavar="FILE", help="accepted and ignored")
    parser.parse_args(arguments)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(load_process_settings()))
    except ConfigError as error:
        sys.stderr.write(f"rest-service: {error}\n")
        return EXIT_CONFIG
    return 0


if __name__ == "__main__":
    sys.exit(main())
