"""The pipeline's end of one worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from crawlstream.errors import ConfigError, CrawlstreamError
from pipeline_service.spec.stages import ChainPlan
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.workers import frames
from pipeline_service.workers.child import EXIT_MEMORY

START_S = 120.0
"""For a worker to load its stages."""
_END_S = 2.0
_BUFFER = 1 << 20


class WorkerLost(CrawlstreamError):
    """The worker has died, or was killed because it took too long; the text says which."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        """``killed``, ``memory`` or ``timeout``."""


class StageWorker:
    """A process that runs stages; only the thread that has started it may outlive it."""

    def __init__(self, plan: ChainPlan, *, timeout_s: float, memory_mb: int) -> None:
        self.served = 0
        """Records that it has answered."""
        self.schema: Mapping[str, Any] | None = None
        """The JSON Schema of the items, if there is one."""
        self._plan = plan
        self._timeout_s = timeout_s
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Start it; ConfigError if the stages cannot be loaded, WorkerLost."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: ASYNC220  it returns once there is a process
                [
                    *(sys.executable, "-P", "-m", "pipeline_service.workers.child"),
                    *(str(os.getpid()), str(theirs.fileno())),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=_BUFFER)
        plan = {"plan": frames.plan_record(self._plan), "memory_mb": self._memory_mb}
        told = await self._asked(frames.pack(plan), START_S)
        if "refused" in told:
            await self.close()
            raise ConfigError(told["refused"])
        self.schema = told["schema"]

    async def run(self, values: Sequence[bytes]) -> AsyncIterator[Sequence[PageOutcome]]:
        """The outcomes of records, in their order, in some lists; WorkerLost."""
        message, left = frames.pack_values(values), len(values)
        while left:
            told = await self._asked(message, self._timeout_s)
            try:
                outcomes = [frames.outcome_of(frames.unpack(each)) for each in told]
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
        """Kill what is left of it, and say what has become of it."""
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
            return WorkerLost("memory", f"it needs more than {self._memory_mb} MiB (memory_mb)")
        if status < 0:
            return WorkerLost(kind, f"it was killed by {signal.Signals(-status).name}")
        return WorkerLost(kind, f"it has ended with the status {status}")
