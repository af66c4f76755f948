"""Which worker runs what: each file as a whole, and files that share a cluster where it runs."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling

SHARING = (
    *("tests/e2e/", "tests/fundamentals/"),
    *(
        f"tests/chaos/test_{name}.py"
        for name in ("failpoints", "kills", "ledger", "lost_redis", "polite_rules")
    ),
)
"""Where tests use the cluster of the session, which is started by the first of them."""
_CLUSTERS = 2

DIVIDED = {"tests/mutation/test_planted.py": 3}
"""Workers for the longest files, if their tests need nothing of each other."""


class ByCluster(LoadFileScheduling):  # type: ignore[misc] # it has no types
    """Files go to any worker, but those that share a whole cluster to two: each starts its own.

    The longest files are divided.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._clusters: dict[str, int] = {}
        self._parts: dict[str, dict[str, int]] = {file: {} for file in DIVIDED}

    def _split_scope(self, nodeid: str) -> str:
        """Return the file of a test, or a part or the cluster of that file, in their order."""
        file = nodeid.partition("::")[0]
        if file in DIVIDED:
            part = self._parts[file].setdefault(nodeid, len(self._parts[file]) % DIVIDED[file])
            return f"{file} {part}"
        if not file.startswith(SHARING):
            return file
        return f"cluster {self._clusters.setdefault(file, len(self._clusters) % _CLUSTERS)}"
