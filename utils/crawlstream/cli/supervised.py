"""supervisord, whose logs may fail: ``python -m crawlstream.cli.supervised -c supervisord.conf``.

Supervisor's own ends as soon as it cannot write a line, as on a full disk. All that it runs would
go on, with nobody who starts it anew; here the line is left out, and all goes on once there is
room.
"""

from __future__ import annotations

import contextlib
from typing import Any

from supervisor import supervisord
from supervisor.loggers import Handler, RotatingFileHandler

_emit = RotatingFileHandler.emit


def main() -> None:
    """Run supervisord; its arguments are those of this program."""
    forgive_logs()
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


if __name__ == "__main__":
    main()
