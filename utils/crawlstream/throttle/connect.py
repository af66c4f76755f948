"""Connections to ZooKeeper: one place for what every client of ours is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

SESSION_TIMEOUT_S = 6.0
"""A server that is silent for two thirds of this counts as gone, and the next one is tried."""

OPERATION_TIMEOUT_S = 4.0
"""A call whose answer takes longer is given up; a frozen server answers nothing."""


def make_client(hosts: Sequence[str]) -> Any:
    """A client that, once started, tries to connect until ``close_client`` ends its threads."""
    return KazooClient(
        hosts=",".join(hosts),
        timeout=SESSION_TIMEOUT_S,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=2.0),
    )


def close_client(client: Any) -> None:
    """End the session and the threads, whether or not there is a connection."""
    client.stop()
    client.close()
