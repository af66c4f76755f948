"""The supervisord of one home: start it, ask it, end it, and clear up when it is gone.

Everything it runs carries CRAWLSTREAM_CLUSTER with the home's path, so that what is left behind
by a supervisord that was killed can still be found and ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from xmlrpc.client import Fault, ServerProxy

import psutil

from crawlstream_cli.local.home import Home, checkout
from crawlstream_cli.local.supervisor_rpc import server_at
from crawlstream_extract.workers.tether import die_with_parent

MARK = "CRAWLSTREAM_CLUSTER"
_SERVERS = ("redis", "zookeeper", "kafka")
_KINDS = (*_SERVERS, "kafka-monitor", "redis-monitor", "crawler", "pipeline", "rest")
_SETTLED_S = 2.0
_LOOK_EVERY_S = 0.1
_SHUTDOWN_STATE = 6
"""How supervisord refuses every question once it is ending what it runs (xmlrpc.Faults)."""
_SHUTDOWN_S = 400
"""More than the longest stopwaitsecs of each group in supervisord.conf, one after the other."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process of the cluster as supervisor sees it."""

    name: str
    kind: str
    """``kafka``, ``zookeeper``, ``redis``, ``kafka-monitor``, ``redis-monitor``, ``crawler``…"""
    pid: int | None
    state: str
    """``RUNNING``, ``STARTING``, ``BACKOFF``, ``STOPPING``, ``STOPPED``, ``EXITED``, ``FATAL``."""
    uptime_s: float
    started_at: int
    """Epoch seconds of its latest start, whether it still runs or not."""

    @property
    def is_server(self) -> bool:
        """Return whether it is a third-party server."""
        return self.kind in _SERVERS


class Supervisor:
    """Talks to the supervisord of ``home``."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = -_SETTLED_S

    @property
    def has_ended(self) -> bool:
        """Return whether the supervisord that was started here has ended by itself."""
        return self._child is not None and self._child.poll() is not None

    def start(self, environment: Mapping[str, str], *, tied: bool) -> None:
        """Run supervisord in a session of its own; tied, it stops with the calling thread."""
        self._started_at = time.monotonic()
        argv = (sys.executable, "-m", "crawlstream_cli.local.supervised", "-c", _conf())
        with (self._home.logs / "supervisord.out").open("wb") as log:
            self._child = subprocess.Popen(
                argv,
                cwd=self._home.path,
                env={**environment, MARK: str(self._home.path)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                preexec_fn=die_with_parent(signal.SIGTERM) if tied else None,  # noqa: PLW1509  no thread holds a lock
            )

    def pid(self) -> int | None:
        """The process id of supervisord, None when none answers."""
        try:
            return cast("int", self._rpc().supervisor.getPID())
        except Fault as fault:
            return self._noted_pid() if fault.faultCode == _SHUTDOWN_STATE else None
        except OSError:
            return None

    def _noted_pid(self) -> int | None:
        try:
            return int((self._home.run / "supervisord.pid").read_text())
        except (OSError, ValueError):
            return None

    @property
    def is_stopping(self) -> bool:
        """Return whether it still answers, but is stopping all its processes."""
        try:
            self._rpc().supervisor.getPID()
        except Fault as fault:
            return fault.faultCode == _SHUTDOWN_STATE
        except OSError:
            return False
        return False

    def processes(self) -> Sequence[ProcessInfo]:
        """Return its processes without the health listener; empty if it does not answer."""
        try:
            told = cast("list[dict[str, Any]]", self._rpc().supervisor.getAllProcessInfo())
        except (OSError, Fault):
            return []
        found = [_info(process) for process in told if process["group"] != "health"]
        return sorted(found, key=_place)

    def add(self, names: Iterable[str]) -> None:
        """Start programs that its configuration has gained since it was read."""
        rpc = self._rpc().supervisor
        rpc.reloadConfig()
        for name in names:
            rpc.addProcessGroup(name)

    def remove(self, names: Collection[str]) -> None:
        """Stop those of its programs, all at once, and forget them when they have ended."""
        rpc = self._rpc().supervisor
        known = [each.name for each in self.processes() if each.name in names]
        for name in known:
            rpc.stopProcessGroup(name, False)
        while any(each.pid and each.name in known for each in self.processes()):
            time.sleep(_LOOK_EVERY_S)
        for name in known:
            rpc.removeProcessGroup(name)

    def stop(self) -> int:
        """End supervisord and all it runs; answers how many processes had to be cleared up."""
        pid = self._child.pid if self._child else self.pid()
        if pid is not None and not self._has_ended(pid):
            # A child that is forked but has not become its program yet would lose its TERM.
            time.sleep(max(0.0, self._started_at + _SETTLED_S - time.monotonic()))
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + _SHUTDOWN_S
            while not self._has_ended(pid) and time.monotonic() < deadline:
                # It checks its children once per second, and with every call.
                self.pid()
                time.sleep(0.05)
        return self.clear_up()

    def _has_ended(self, pid: int) -> bool:
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is not None
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return True

    def leftovers(self) -> Sequence[psutil.Process]:
        """Processes of this home, supervisord or not, that run now."""
        mark = str(self._home.path)
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == mark and process.pid != os.getpid():
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def clear_up(self) -> int:
        """End processes without a supervisord: those of crawlstream first, then the servers."""
        left = self.leftovers()
        ours = [process for process in left if _is_ours(process)]
        _end(ours)
        _end([process for process in left if process not in ours])
        self._home.socket.unlink(missing_ok=True)
        return len(left)

    def _rpc(self) -> ServerProxy:
        return server_at(self._home.socket)


def _conf() -> str:
    return str(checkout("supervisord.conf"))


def _info(told: Mapping[str, Any]) -> ProcessInfo:
    is_up = told["pid"] != 0
    return ProcessInfo(
        name=told["name"],
        kind=_kind(told["group"]),
        pid=told["pid"] or None,
        state=told["statename"],
        uptime_s=float(told["now"] - told["start"]) if is_up else 0.0,
        started_at=told["start"],
    )


def _kind(group: str) -> str:
    if group == "redis-partition":
        return "redis"
    return "crawler" if group.startswith("crawler-") else group


def _place(process: ProcessInfo) -> tuple[int, str, int]:
    """Servers first; the crawlers of a spider by their numbers."""
    spider, _, number = process.name.rpartition("-")
    is_numbered = number.isdigit()
    return _KINDS.index(process.kind), spider, int(number) if is_numbered else 0


def _is_ours(process: psutil.Process) -> bool:
    try:
        return "python" in process.name()
    except psutil.Error:
        return False


def _end(processes: Sequence[psutil.Process]) -> None:
    """Ask, wait, insist."""
    for how, patience_s in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
        for process in processes:
            try:
                process.send_signal(how)
            except psutil.Error:
                continue
        _gone, processes = psutil.wait_procs(processes, timeout=patience_s)
