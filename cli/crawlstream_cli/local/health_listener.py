"""Supervisor's health listener: ends processes that are up but dead, so that they are restarted.

Supervisor only notices a process that ends. This listener checks every five seconds if each process
does anything. A process that has answered before and is silent several times in a row, or never
answers at all, is killed. That is safe: every process may be killed at any time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog
from supervisor import childutils

from crawlstream.boot.log import configure
from crawlstream.boot.settings import load_settings
from crawlstream_cli.local.home import default_home
from crawlstream_cli.local.layout import LocalLayout
from crawlstream_cli.local.ports import Ports
from crawlstream_cli.local.probes import is_alive
from crawlstream_cli.local.supervisor import ProcessInfo, Supervisor

SILENCES = 4
"""Unanswered questions in a row after which a process counts as dead: about 20 s."""

START_S = 600
"""A server that recovers a large log may need minutes before its first answer."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Known:
    """State of a process while it keeps its pid."""

    pid: int
    has_answered: bool = False
    silences: int = 0


class SilenceWatch:
    """Counts the silences of each process and says which ones are dead."""

    def __init__(self, answers: Callable[[ProcessInfo], bool]) -> None:
        self._answers = answers
        self._known: dict[str, _Known] = {}

    def dead(self, processes: Sequence[ProcessInfo]) -> Sequence[ProcessInfo]:
        """Ask everyone that runs, at once; those that are beyond hope."""
        running = [process for process in processes if process.state == "RUNNING"]
        if not running:
            return []
        with ThreadPoolExecutor(len(running)) as pool:
            answers = list(pool.map(self._answers, running))
        return [p for p, is_up in zip(running, answers, strict=True) if self._is_dead(p, is_up)]

    def _is_dead(self, process: ProcessInfo, is_up: bool) -> bool:
        assert process.pid is not None
        known = self._known.get(process.name)
        if known is None or known.pid != process.pid:
            known = self._known[process.name] = _Known(process.pid)
        if is_up:
            known.has_answered, known.silences = True, 0
            return False
        known.silences += 1
        if known.has_answered:
            return known.silences >= SILENCES
        return process.uptime_s > START_S


def main() -> None:
    """Serve supervisor's events until it goes away."""
    configure(load_settings(), "health")
    layout = LocalLayout(home=default_home(), ports=Ports.given(os.environ), given={})
    supervisor = Supervisor(layout.home)

    def answers(process: ProcessInfo) -> bool:
        return is_alive(process.kind, layout.port_of(process.kind, process.name))

    watch = SilenceWatch(answers)
    while _next_event():
        for process in watch.dead(supervisor.processes()):
            log.warning("restart", name=process.name, pid=process.pid, reason="does not answer")
            assert process.pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        childutils.listener.ok(sys.stdout)


def _next_event() -> bool:
    """Wait for supervisor's next tick; false when supervisor is gone."""
    try:
        childutils.listener.wait(sys.stdin, sys.stdout)
    except (KeyError, OSError):
        return False
    return True


if __name__ == "__main__":
    main()
