"""The work that workers do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from crawlstream.errors import CrawlstreamError

Outcome = TypeVar("Outcome")


class WorkerLost(CrawlstreamError):
    """The worker has died, or was killed because it took too long; the text says which."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        """``killed``, ``memory`` or ``timeout``."""


Died = Callable[[WorkerLost], None]
"""Called when a worker has died."""


class WorkersLost(CrawlstreamError):
    """Workers die before they have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[Outcome]):
    """Work of a pool of workers."""

    target: str
    """Name, as ``module:name``, of a callable that makes a `WorkInside` in the worker."""
    argument: Any
    """Argument of that callable; plain values of msgpack."""
    decode: Callable[[bytes], Outcome]
    """Reads an answer; KeyError, TypeError or ValueError for other bytes."""
    lost: Callable[[str, str], Outcome]
    """Makes the outcome of a value that workers were lost with: the cause, and a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Limits of a worker."""

    workers: int
    timeout_s: float = 30.0
    """Seconds for one value."""
    memory_mb: int = 1024
    """Address space of a worker in MB; 0: unlimited."""


class WorkInside(Protocol):
    """The work as it is in the worker, ready to run."""

    @property
    def told(self) -> Any:
        """Plain values for the parent, which are known when the work is loaded."""

    def run(self, value: bytes) -> bytes:
        """Return the answer to a value; MemoryError ends the worker."""


def load_work(target: str, argument: Any) -> WorkInside:
    """Import the callable ``module:name``, and make the work of it; ConfigError by the callable."""
    module, _, name = target.partition(":")
    made: WorkInside = getattr(import_module(module), name)(argument)
    return made
