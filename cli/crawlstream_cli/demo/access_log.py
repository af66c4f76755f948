"""The site's access log: written by the site, and read by the checks.

Each line is a JSON object: ``mono`` and ``wall`` (milliseconds of arrival by the monotonic and the
wall clock), ``host``, ``method``, ``path``, ``status``, ``agent``; of a signed request also
``authority`` and ``signature``; ``charged``, the price that it has paid.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson

STAMP_TOLERANCE_S = 0.001
"""How far the stamps of two arrivals may be off."""

FURTHER = "/further/"
"""How paths begin that the scripts of pages ask for; a number and the page's own path follow."""

_FLUSH_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that reached the site."""

    mono: float
    """Milliseconds of the monotonic clock at arrival."""
    wall: float
    """Milliseconds since the epoch at arrival."""
    host: str
    method: str
    path: str
    status: int
    agent: str
    authority: str = ""
    """Host as it was sent, with its port."""
    signature: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The headers of its signature and of its offer, by their names in lower case."""
    charged: str = ""
    """Price that it has paid, such as ``USD 0.01``."""

    @property
    def document(self) -> str | None:
        """Path of the page whose script sent this request; None: not sent by a script."""
        if not self.path.startswith(FURTHER):
            return None
        return "/" + self.path.removeprefix(FURTHER).partition("/")[2]


class AccessLog:
    """Appends visits to a file, in blocks; :meth:`flush` puts what has gathered on disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab", buffering=_FLUSH_BYTES)

    def note(self, visit: LoggedRequest) -> None:
        """Add one visit."""
        self._file.write(orjson.dumps(visit) + b"\n")

    def flush(self) -> None:
        """Let readers see all that was noted."""
        self._file.flush()

    def close(self) -> None:
        """Flush and let go of the file."""
        self._file.close()


def read_visits(path: Path) -> list[LoggedRequest]:
    """All visits on disk so far, in order of arrival; a half-written last line is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    visits = (LoggedRequest(**orjson.loads(line)) for line in whole.splitlines())
    return sorted(visits, key=lambda visit: visit.mono)


def count_fetches(visits: Iterable[LoggedRequest], port: int, scheme: str = "http") -> Counter[str]:
    """Return how often each URL was requested, robots.txt left out."""
    return Counter(
        f"{scheme}://{visit.host}:{port}{visit.path}"
        for visit in visits
        if visit.path != "/robots.txt"
    )


def busiest_windows(visits: Iterable[LoggedRequest], window_s: float) -> dict[str, int]:
    """For each host, the most requests that arrived within any window of that many seconds.

    Less the tolerance of their stamps: requests that are evenly spaced fill a window exactly.
    """
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    for visit in visits:
        arrivals[visit.host].append(visit.mono)
    window_ms = (window_s - STAMP_TOLERANCE_S) * 1000
    return {host: _busiest(sorted(times), window_ms) for host, times in arrivals.items()}


def _busiest(times: Sequence[float], window_ms: float) -> int:
    most = start = 0
    for end, time_ms in enumerate(times):
        while time_ms - times[start] >= window_ms:
            start += 1
        most = max(most, end - start + 1)
    return most
