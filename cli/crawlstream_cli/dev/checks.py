"""``crawlstream check``: what must hold before a change is shared, without running the product."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import typer

from crawlstream_cli.local.home import checkout

_TOOLS = Path(sys.executable).parent

_CHECKS_AT_ONCE = 2
"""The types take as long as all others together."""

_PROJECT = "tests/unit/project"
CHECKED = (
    f"{_PROJECT}/test_architecture.py",
    f"{_PROJECT}/test_lua.py",
    f"{_PROJECT}/test_supply.py",
)
"""Test files that are checks: `crawlstream test` leaves them out."""
_SIZES, _LUA, _SUPPLY = ((sys.executable, "-m", "pytest", "-q", each) for each in CHECKED)

CHECKS = {
    "types": (str(_TOOLS / "mypy"),),
    "lint": (str(_TOOLS / "ruff"), "check"),
    "format": (str(_TOOLS / "ruff"), "format", "--check"),
    "borders": (str(_TOOLS / "lint-imports"),),
    "sizes": _SIZES,
    "lua": _LUA,
    "supply": _SUPPLY,
    # Compiles, once, what the workers of `test` would all compile at the same time.
    "tests": (sys.executable, "-m", "pytest", "-qq", "--collect-only", "tests"),
    "docs": (str(_TOOLS / "mkdocs"), "build", "--strict"),
}


def run_checks() -> None:
    """Run all checks (lint, types, borders, sizes, Lua, supply, docs), even after a failure.

    Tests are collected, not run.
    """
    failed = []
    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as pool:
        running = {pool.submit(_check, argv): name for name, argv in CHECKS.items()}
        for each in as_completed(running):
            name, (done, took) = running[each], each.result()
            verdict = "FAILED" if done.returncode else "ok"
            print(f"{name:8} {verdict} ({took:.1f} s)", flush=True)
            if done.returncode:
                failed.append(name)
                print(done.stdout + done.stderr)
    raise typer.Exit(1 if failed else 0)


def _check(argv: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run one; what it said, and how long it took."""
    started_at = time.monotonic()
    # The theme of the documentation advertises its successor otherwise.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = checkout("tests").parent
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done, time.monotonic() - started_at
