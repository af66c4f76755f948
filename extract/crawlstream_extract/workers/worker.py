"""The parent's end of one worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic

from crawlstream.errors import ConfigError
from crawlstream_extract.workers import frames
from crawlstream_extract.workers.child import EXIT_MEMORY
from crawlstream_extract.workers.job import Job, Outcome, WorkerLimits, WorkerLost

START_S = 120.0
"""For a worker to load its work."""
_END_S = 2.0
_BUFFER = 1 << 20


class JobWorker(Generic[Outcome]):
    """A process that runs a job; only the thread that has started it may outlive it."""

    def __init__(self, job: Job[Outcome], limits: WorkerLimits) -> None:
        self.served = 0
        """Values that it has answered."""
        self.told: Any = None
        """Plain values that the work has told when it was loaded."""
        self._job = job
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Start it; ConfigError if the work cannot be made, WorkerLost."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: ASYNC220  it returns once there is a process
                [
                    *(sys.executable, "-P", "-m", "crawlstream_extract.workers.child"),
                    *(str(os.getpid()), str(theirs.fileno())),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=_BUFFER)
        job = {"target": self._job.target, "argument": self._job.argument}
        asked = frames.pack(job | {"memory_mb": self._limits.memory_mb})
        told = await self._asked(asked, START_S)
        if "refused" in told:
            await self.close()
            raise ConfigError(told["refused"])
        self.told = told["told"]

    async def run(self, values: Sequence[bytes]) -> AsyncIterator[Sequence[Outcome]]:
        """The outcomes of values, in their order, in some lists; WorkerLost."""
        message, left = frames.pack_values(values), len(values)
        while left:
            told = await self._asked(message, self._limits.timeout_s)
            try:
                outcomes = [self._job.decode(each) for each in told]
            except (KeyError, TypeError, ValueError) as error:
                raise await self._lost("killed", f"it has answered nonsense: {error}") from error
            if not 0 < len(outcomes) <= left:
                raise await self._lost("killed", "it has answered more than it was asked")
            left -= len(outcomes)
            self.served += len(outcomes)
            message = b""
            yield outcomes

    async def close(self) -> None:
        """End it, and wait until it is gone."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        if self._process is not None:
            try:
                await asyncio.to_thread(self._process.wait, _END_S)
            except subprocess.TimeoutExpired:
                pass
            finally:
                self._kill()
            await asyncio.to_thread(self._process.wait)

    def _kill(self) -> None:
        """With whatever it has started."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _asked(self, message: bytes, timeout_s: float) -> Any:
        """Send a message, if there is one, and wait for the next answer; WorkerLost."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(message)
        except TimeoutError:
            told = f"it has not answered within {timeout_s:g} s"
            raise await self._lost("timeout", told) from None
        except (OSError, EOFError, ValueError) as error:
            raise await self._lost("killed", str(error)) from error

    async def _exchange(self, message: bytes) -> Any:
        assert self._writer is not None
        if message:
            self._writer.write(message)
            await self._writer.drain()
        head = await self._reader.readexactly(frames.LENGTH.size)
        (size,) = frames.LENGTH.unpack(head)
        if size > frames.MOST_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        return frames.unpack(await self._reader.readexactly(size))

    async def _lost(self, kind: str, sentence: str) -> WorkerLost:
        """Kill the process if it still runs, and return how it ended."""
        assert self._process is not None
        if kind == "timeout":
            self._kill()
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, _END_S)
        self._kill()
        status = await asyncio.to_thread(self._process.wait)
        await self.close()
        if kind == "timeout":
            return WorkerLost(kind, sentence)
        if status == EXIT_MEMORY:
            return WorkerLost(
                "memory", f"it needs more than {self._limits.memory_mb} MiB (memory_mb)"
            )
        if status < 0:
            return WorkerLost(kind, f"it was killed by {signal.Signals(-status).name}")
        return WorkerLost(kind, f"it has ended with the status {status}")
