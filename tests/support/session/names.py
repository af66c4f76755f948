"""Names that nothing else of the run has, though all workers share a Kafka and a ZooKeeper."""

from __future__ import annotations

import itertools
import os

_numbers = itertools.count(1)
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")


def fresh(beginning: str) -> str:
    """Return a new name: for a topic prefix, a group, a node."""
    return f"{beginning}{next(_numbers)}{_worker}"
