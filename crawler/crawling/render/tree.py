"""A process with all that it has started: browsers are many processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


def tree_of(pid: int) -> list[psutil.Process]:
    """The process and all below it that run now; none if it has ended."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def memory_bytes(pid: int) -> int:
    """Memory of all of them, what they share counted once (Linux: PSS)."""
    return sum(map(memory_of, tree_of(pid)))


def cpu_s(pid: int) -> float:
    """CPU time of those that run now and of those that have ended."""
    total = 0.0
    for process in tree_of(pid):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            total += times.children_user + times.children_system
    return total


def memory_of(process: psutil.Process) -> int:
    """Its share of what is in RAM; 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        lines = (line.split() for line in rollup.splitlines())
        return 1024 * next(int(words[1]) for words in lines if words[0] == "Pss:")
    except (OSError, StopIteration):
        with suppress(psutil.Error):
            resident: int = process.memory_info().rss
            return resident
    return 0
