"""Log of a Delta table on a disk, read by its protocol and without the library that writes it.

An entry of the log is a JSON file of actions; a checkpoint is a Parquet file with those that are
left of all entries up to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyarrow import parquet

_TOKEN = "/token"  # noqa: S105  of a position


class DeltaLog:
    """The log of a table, as its reader uses it."""

    def __init__(self, table: Path) -> None:
        self._table = table

    def files(self) -> Sequence[Path]:
        """Return the files whose rows are in the table, each as often as it is named."""
        return live_files(self._table)

    def positions(self) -> Mapping[str, tuple[int, int]]:
        """Return next offset and token by the name of a position."""
        found = applications(self._table)
        return {
            name: (found[name], found[name + _TOKEN]) for name in found if not name.endswith(_TOKEN)
        }


def live_files(table: Path) -> Sequence[Path]:
    """Return the files whose rows are in the table, each as often as it is named."""
    files: dict[str, int] = {}
    for actions in _entries(table / "_delta_log"):
        for action in actions:
            if (removed := action.get("remove")) is not None:
                files.pop(removed["path"], None)
            if (added := action.get("add")) is not None:
                files[added["path"]] = files.get(added["path"], 0) + 1
    return [table / unquote(name) for name, times in files.items() for _ in range(times)]


def applications(table: Path) -> Mapping[str, int]:
    """Return the version of each application that has committed."""
    found: dict[str, int] = {}
    for actions in _entries(table / "_delta_log"):
        for action in actions:
            if (transaction := action.get("txn")) is not None:
                found[transaction["appId"]] = transaction["version"]
    return found


def _entries(log: Path) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the actions of the newest checkpoint, and of each entry after it."""
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    begun = -1
    if checkpoints:
        begun = int(checkpoints[-1].name.partition(".")[0])
        yield parquet.read_table(checkpoints[-1]).to_pylist()
    versions = sorted(int(path.stem) for path in log.glob("*.json") if path.stem.isdigit())
    for version in versions:
        if version > begun:
            entry = (log / f"{version:020}.json").read_text()
            yield [json.loads(line) for line in entry.splitlines()]
