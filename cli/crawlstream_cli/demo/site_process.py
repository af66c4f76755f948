"""The bundled site in a process of its own, which ends with the one that started it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crawlstream.errors import SetupError
from crawlstream.tasks import wait_until
from crawlstream_cli.demo.web import Web
from crawlstream_extract.workers.tether import die_with_parent

_START_S = 90
"""Seconds to wait for the start, also on a busy machine; not for a process that has ended."""


@asynccontextmanager
async def served(
    port: int, shape: Mapping[str, Any], log: Path, environment: Mapping[str, str]
) -> AsyncIterator[Web]:
    """Serve the web of this shape (arguments of :class:`Web`) for a block; ``log``: its visits."""
    web = Web(port, **shape)
    site = _start({"port": port, "log": log, **shape}, environment)

    def answers() -> bool:
        if site.poll() is not None:
            raise SetupError("the site under test did not start")
        with socket.socket() as visitor:
            return visitor.connect_ex((web.hosts[-1], web.port)) == 0

    try:
        await wait_until(answers, timeout_s=_START_S)
        yield web
    finally:
        site.kill()
        site.wait()


def _start(told: Mapping[str, Any], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in told.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "crawlstream_cli.demo", *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509  no thread holds a lock
    )
