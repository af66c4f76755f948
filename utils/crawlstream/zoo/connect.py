"""Connections to ZooKeeper: one place for what every client of ours is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

SESSION_TIMEOUT_S = 6.0
"""A server that is silent for two thirds of this counts as gone, and the next one is tried."""

OPERATION_TIMEOUT_S = 4.0
"""A call whose answer takes longer is given up; a frozen server answers nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How ZooKeeper is talked to, mostly in kazoo's words; a process has one way."""

    digest: str | None = None
    """``user:password``."""
    use_ssl: bool = False
    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: str | None = None
    check_hostname: bool = True


_security = Security()


def secure(security: Security) -> None:
    """Have every connection from now on made so; called when the settings are read."""
    global _security  # noqa: PLW0603  of the process, like its environment
    _security = security


def make_client(hosts: Sequence[str]) -> Any:
    """A client that, once started, tries to connect until ``close_client`` ends its threads.

    With a user, nodes that it makes are this user's alone; nodes that are there keep their list.
    """
    how = _security
    return KazooClient(
        hosts=",".join(hosts),
        timeout=SESSION_TIMEOUT_S,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=2.0),
        auth_data=[("digest", how.digest)] if how.digest else None,
        default_acl=CREATOR_ALL_ACL if how.digest else None,
        use_ssl=how.use_ssl,
        ca=how.ca,
        certfile=how.certfile,
        keyfile=how.keyfile,
        keyfile_password=how.keyfile_password,
        check_hostname=how.check_hostname,
    )


def close_client(client: Any) -> None:
    """End the session and the threads, whether or not there is a connection."""
    client.stop()
    client.close()
