"""Seconds of the tests of each folder, printed with ``--durations``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

_LEAST_S = 1


def write_costs(reporter: pytest.TerminalReporter) -> None:
    """Print seconds, share and number of tests of each folder, the slowest first."""
    seconds, tests = Counter[str](), Counter[str]()
    for report in (each for found in reporter.stats.values() for each in found):
        if hasattr(report, "duration") and hasattr(report, "when"):
            folder = str(Path(report.location[0]).parent)
            seconds[folder] += report.duration
            tests[folder] += report.when == "call"
    total = seconds.total() or 1
    reporter.write_sep("=", "seconds by folder")
    for folder, took in seconds.most_common():
        if took >= _LEAST_S:
            reporter.write_line(
                f"{took:6.0f} s {took / total:5.1%} {tests[folder]:5} tests  {folder}"
            )
