"""Waiting for a starting cluster: servers, then topics, then crawlstream's processes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.bus.topics import ensure_topics
from crawlstream.errors import SetupError, Unavailable
from crawlstream_cli.local.layout import LocalLayout
from crawlstream_cli.local.supervisor import ProcessInfo, Supervisor

Progress = Callable[[Mapping[str, str]], None]
"""Called a few times per second with the state of each part: ``ready`` or the reason why it waits;
after a while also with the duration and the log file."""

_ELSEWHERE_S = 30
"""A Kafka that is not started here is up already, or not worth waiting for."""
_LOOK_EVERY_S = 0.1
_LATE_S = 10
"""Seconds in one state after which a part is shown with its log, and between updates of that."""
_STARTS = 4
"""Starts after which a process that always ended is not expected to come up by itself."""


class NotReady(SetupError):
    """The cluster is not ready yet, though nothing of it has failed."""


class Readiness:
    """Watches the parts of a cluster come up; SetupError with a remedy if one does not."""

    def __init__(
        self,
        layout: LocalLayout,
        supervisor: Supervisor,
        progress: Progress,
        *,
        patience_s: float | None = None,
    ) -> None:
        self._layout = layout
        self._supervisor = supervisor
        self._progress = progress
        self._settings = load_settings(**layout.environment())
        self._patience_s = patience_s or self._settings.start_timeout
        self._advanced_at = time.monotonic()
        self._seen: set[tuple[str, str]] = set()
        """Parts and the states that each has had."""
        self._since: dict[str, tuple[str, float]] = {}
        """The state that each part is in, and since when."""
        self._starts: dict[str, set[int]] = {}

    def wait(self) -> None:
        """Return when everything is ready."""
        if self._layout.local:
            self._until(self._servers)
        self._make_topics()
        self._until(self._everything)

    def _until(self, look: Callable[[Sequence[ProcessInfo]], Mapping[str, str]]) -> None:
        while True:
            states = look(self._living_processes())
            self._note(states)
            if states and all(state == "ready" for state in states.values()):
                return
            if time.monotonic() - self._advanced_at > self._patience_s:
                raise self._not_ready({n: s for n, s in states.items() if s != "ready"})
            time.sleep(_LOOK_EVERY_S)

    def _note(self, states: Mapping[str, str]) -> None:
        """Show the states; whatever comes to a state that it has not had extends the patience."""
        now = time.monotonic()
        for part in states.items():
            if part not in self._seen:
                self._seen.add(part)
                self._advanced_at = now
            if self._since.get(part[0], ("", now))[0] != part[1]:
                self._since[part[0]] = part[1], now
        self._progress({name: self._told(name, state) for name, state in states.items()})

    def _told(self, name: str, state: str) -> str:
        """Return a state; of a part that has been in it for long, with its age and its log."""
        times = (time.monotonic() - self._since[name][1]) // _LATE_S
        is_late = state != "ready" and times
        return f"{state} for {times * _LATE_S:.0f} s{self._log_of(name)}" if is_late else state

    def _not_ready(self, late: Mapping[str, str]) -> NotReady:
        now = time.monotonic()
        named = [
            f"{name} ({state} for {now - self._since[name][1]:.0f} s{self._log_of(name)})"
            for name, state in late.items()
        ]
        return NotReady(
            f"nothing has advanced for {self._patience_s:g} s (CRAWLSTREAM_START_TIMEOUT), and this"
            f" is not ready yet: {', '.join(named) or 'supervisord' + self._log_of('supervisord')}"
        )

    def _log_of(self, name: str) -> str:
        log = self._layout.home.logs / f"{name}.log"
        return f", see {log}" if log.exists() else ""

    def _servers(self, processes: Sequence[ProcessInfo]) -> Mapping[str, str]:
        return {p.name: self._state(p) for p in processes if p.is_server}

    def _everything(self, processes: Sequence[ProcessInfo]) -> Mapping[str, str]:
        return {process.name: self._state(process) for process in processes}

    def _state(self, process: ProcessInfo) -> str:
        if process.pid is None:
            return process.state.lower()
        return self._layout.condition_of(process.kind, process.name)

    def _make_topics(self) -> None:
        is_here = "kafka" in self._layout.local
        patience_s = self._patience_s if is_here else _ELSEWHERE_S
        make = partial(_make_topics, self._settings, goes_on=is_here)
        given_up = Event()
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(make, patience_s, given_up)
            try:
                while not made.done():
                    self._living_processes()
                    self._note({"kafka": "creating the topics"})
                    time.sleep(_LOOK_EVERY_S)
            finally:
                given_up.set()
            made.result()

    def _living_processes(self) -> Sequence[ProcessInfo]:
        """Return the running processes; SetupError for one that ends again and again."""
        if self._supervisor.has_ended:
            raise SetupError(
                f"supervisord has exited; its last log line: {self._last_words('supervisord')}"
            )
        processes = self._supervisor.processes()
        for process in processes:
            starts = self._starts.setdefault(process.name, set())
            starts.add(process.started_at)
            if len(starts) > _STARTS or process.state == "FATAL":
                self._refuse(process)
        return processes

    def _refuse(self, process: ProcessInfo) -> None:
        raise SetupError(
            f"{process.name} does not start; its last log line: {self._last_words(process.name)}"
        )

    def _last_words(self, name: str) -> str:
        """The last line of a log that says anything, and where it stands."""
        files = [self._layout.home.logs / f"{name}.{end}" for end in ("out", "log")]
        lines = [
            (line.strip(), path)
            for path in files
            if path.exists()
            for line in path.read_text(errors="replace").splitlines()
            if line.strip()
        ]
        said, path = lines[-1] if lines else ("nothing", self._layout.home.logs)
        return f"{_in_short(said)} (see {path})"


def _in_short(line: str) -> str:
    """Return the sentence inside a log line of crawlstream; other lines unchanged."""
    try:
        told = json.loads(line)
    except ValueError:
        return line
    if not isinstance(told, dict):
        return line
    trace = str(told.get("exception", "")).strip().splitlines()
    return str(told.get("error") or (trace and trace[-1]) or told.get("event"))


def _make_topics(settings: Settings, patience_s: float, given_up: Event, *, goes_on: bool) -> None:
    """Create the topics; SetupError if Kafka does not answer in time, or the wait was given up.

    ``goes_on``: Kafka is still starting then; NotReady.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            partitions = settings.partitions.number
            return asyncio.run(ensure_topics(kafka_of(settings), settings.topics, partitions))
        except Unavailable as error:
            if given_up.wait(_LOOK_EVERY_S) or time.monotonic() > deadline:
                kind = NotReady if goes_on else SetupError
                raise kind(f"cannot create the topics: {error}") from error
