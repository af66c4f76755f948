"""Where commands show tables: a terminal has a width, a pipe and a file have none."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console

_UNBOUNDED = 10_000
"""Columns; nothing that is shown is wider, and what `grep` reads must not be cut."""


def stdout_console(**options: Any) -> Console:
    """Standard output; as wide as anything needs it unless somebody looks."""
    is_seen = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_seen else _UNBOUNDED, **options)
