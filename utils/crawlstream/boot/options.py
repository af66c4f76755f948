"""The options of the monitors' commands: the predecessor's flags, without its settings files."""

from __future__ import annotations

import argparse

from crawlstream.boot.local_note import load_process_settings
from crawlstream.boot.settings import Settings

EXIT_CONFIG = 2
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def common_options() -> argparse.ArgumentParser:
    """A parent of parsers; ``settings_of`` reads what its options say."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-s", "--settings", metavar="FILE", help="accepted and ignored")
    parser.add_argument("-ll", "--log-level", choices=_LEVELS, help="default: LOG_LEVEL")
    parser.add_argument("-lf", "--log-file", action="store_true", help="accepted and ignored")
    parser.add_argument("-lj", "--log-json", action="store_true", help="write logs as JSON lines")
    return parser


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of environment and ``.env``, changed by the options; ConfigError."""
    given = {"log_level": options.log_level, "log_json": options.log_json or None}
    return load_process_settings(
        **{name: value for name, value in given.items() if value is not None}
    )
