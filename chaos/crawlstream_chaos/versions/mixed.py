"""A local cluster each of whose processes can be of another version than the others."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.ports import Ports
from crawlstream_cli.local.supervisor import ProcessInfo

_CHOOSE = """#!/bin/sh
# Supervisor starts every process as `python`. A link chooses which one that is. The link is read
# once, so that a process that ends imports nothing of the version that comes after it.
exec "$(readlink "{links}/${{CRAWLSTREAM_METRICS_OFFSET:-none}}" || echo "{other}")" "$@"
"""
_PLACES = 40
"""More than there are processes, whose places are those in the row of metrics ports."""


class MixedCluster(LocalCluster):
    """A cluster that starts with one version, until its processes are changed one by one."""

    def __init__(self, home: Path, *, before: Path, ports: Ports, env: Mapping[str, str]) -> None:
        """``before``: the Python of the version that all processes are started by."""
        super().__init__(home, ports=ports, env=env)
        self._before, self._this = before, Path(sys.executable)
        self._links = self.home.path / "versions"
        self._links.mkdir(exist_ok=True)
        for place in range(_PLACES):
            self._link(place, before)
        chooser = self._links / "python"
        chooser.write_text(_CHOOSE.format(links=self._links, other=self._this))
        chooser.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """The variables of its processes, whose first ``python`` is the one that chooses."""
        found = super().environment()
        return {**found, "PATH": os.pathsep.join((str(self._links), found["PATH"]))}

    def choose(self, process: ProcessInfo, *, is_new: bool) -> None:
        """Choose the version of a process from its next start on: this one, or that before."""
        self._link(self._place(process), self._this if is_new else self._before)

    def is_chosen(self, process: ProcessInfo) -> bool:
        """Return whether this version was chosen for a process."""
        return (self._links / str(self._place(process))).readlink() == self._this

    def is_new(self, pid: int) -> bool:
        """Return whether a process is of this version; OSError: it has ended."""
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return command.partition(b"\0")[0] == os.fsencode(self._this)

    def condition(self, process: ProcessInfo) -> str:
        """Return the condition of a process: see ``probes.condition``."""
        return self._condition(process)

    def _place(self, process: ProcessInfo) -> int:
        return self._layout.port_of(process.kind, process.name) - self._layout.ports.metrics

    def _link(self, place: int, python: Path) -> None:
        new = self._links / "new"
        new.unlink(missing_ok=True)
        new.symlink_to(python)
        new.rename(self._links / str(place))
