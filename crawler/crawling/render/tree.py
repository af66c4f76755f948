"""A process with all its descendants: browsers are many processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


def tree_of(pid: int) -> list[psutil.Process]:
    """Return the process and its running descendants; empty if it has ended."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def memory_bytes(pid: int) -> int:
    """Return the memory of the process tree; shared memory counts once (Linux: PSS)."""
    return sum(map(memory_of, tree_of(pid)))


def cpu_s(pid: int) -> float:
    """Return the CPU time of the running and the ended processes of the tree."""
    total = 0.0
    for process in tree_of(pid):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            total += times.children_user + times.children_system
    return total


def memory_of(process: psutil.Process) -> int:
    """Return a process' share of its pages in RAM; 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        lines = (line.split() for line in rollup.splitlines())
        return 1024 * next(int(words[1]) for words in lines if words[0] == "Pss:")
    except (OSError, StopIteration):
        with suppress(psutil.Error):
            resident: int = process.memory_info().rss
            return resident
    return 0
