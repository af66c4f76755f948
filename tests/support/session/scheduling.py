"""Which worker runs what: each file as a whole, and files that share a cluster where it runs."""

from __future__ import annotations

from zlib import crc32

from xdist.scheduler import LoadFileScheduling

_SHARING = ("tests/e2e/", "tests/fundamentals/")
_CLUSTERS = 2


class ByCluster(LoadFileScheduling):  # type: ignore[misc] # it has no types
    """Files go to any worker, but those that share a whole cluster to two: each starts its own."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if not file.startswith(_SHARING):
            return file
        return f"cluster {crc32(file.encode()) % _CLUSTERS}"
