"""supervisord, for a cluster: ``python -m crawlstream_cli.local.supervised -c supervisord.conf``.

The standard supervisord ends as soon as it cannot write a line, as on a full disk. All its
processes would go on, but would not be restarted. Here the line is left out, and logging continues
once there is room.

The standard supervisord restarts processes that have lived for a second at once, permanently, and
gives up others. Here processes that fail again and again are restarted after growing pauses, and
never given up.

The standard supervisord stops one program after the other. Here programs with the same priority,
such as all crawlers, stop together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

from supervisor import supervisord
from supervisor.loggers import Handler, RotatingFileHandler
from supervisor.process import Subprocess
from supervisor.states import ProcessStates

YOUNG_S = 10
"""A process that ends by itself within this time has failed; later, its failures are forgotten."""
PAUSES_S = (0, 1, 2, 4, 8, 16, 30)
"""Pauses before a process is restarted, by its failures in a row.

A startretries above the last of them is never reached.
"""

_emit = RotatingFileHandler.emit
_finish = Subprocess.finish
_change_state = Subprocess.change_state


def main() -> None:
    """Run supervisord; its arguments are those of this program."""
    forgive_logs()
    pause_after_failures()
    stop_by_priority()
    supervisord.main()


def forgive_logs() -> None:
    """Have lines left out that cannot be written, from now on in this process."""
    Handler.handleError = lambda _handler: None
    RotatingFileHandler.emit = _emit_or_reopen


def _emit_or_reopen(handler: Any, record: Any) -> None:
    """Write, and rotate; a file that a failed rotation has left closed is opened again."""
    try:
        _emit(handler, record)
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            handler.stream = open(handler.baseFilename, "ab")  # noqa: PTH123, SIM115  its stream


def pause_after_failures() -> None:
    """Let processes wait before they are restarted, from now on in this process.

    BACKOFF is supervisor's state for that. It counts pauses in it by ``backoff``, and a process
    that was up for startsecs has none; ``failures`` is added here.
    """
    Subprocess.failures = 0
    Subprocess.finish = _finish_young_or_old
    Subprocess.change_state = _change_state_and_pause


def _finish_young_or_old(process: Any, pid: int, status: int) -> None:
    """Take notice of an end; BACKOFF if it is a failure."""
    is_young = time.time() - process.laststart < YOUNG_S
    if not is_young:
        process.failures = 0
    _finish(process, pid, status)
    if is_young and process.state == ProcessStates.EXITED and not _was_killed(status):
        process.change_state(ProcessStates.BACKOFF)


def _was_killed(status: int) -> bool:
    """Return whether it was killed from outside, like unresponsive ones by the health listener."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _change_state_and_pause(process: Any, state: int, expected: bool = True) -> Any:
    changed = _change_state(process, state, expected)
    if state == ProcessStates.BACKOFF:
        process.backoff = PAUSES_S[min(process.failures, len(PAUSES_S) - 1)]
        process.delay = time.time() + process.backoff
        process.failures += 1
    return changed


def stop_by_priority() -> None:
    """Have all programs of a priority stopped at once, from now on in this process."""
    supervisord.Supervisor.ordered_stop_groups_phase_1 = _stop_last_priority
    supervisord.Supervisor.ordered_stop_groups_phase_2 = _drop_stopped


def _stop_last_priority(supervisor: Any) -> None:
    for group in supervisor.stop_groups:
        if group.config.priority == supervisor.stop_groups[-1].config.priority:
            group.stop_all()


def _drop_stopped(supervisor: Any) -> None:
    groups = supervisor.stop_groups
    while groups and not groups[-1].get_unstopped_processes():
        groups.pop()


if __name__ == "__main__":
    main()
