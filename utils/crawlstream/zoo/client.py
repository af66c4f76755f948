"""Connections to ZooKeeper, with the same configuration for all clients of crawlstream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

SESSION_TIMEOUT_S = 6.0
"""Session timeout; after two thirds of it without a reply, the client tries the next server."""

OPERATION_TIMEOUT_S = 4.0
"""Timeout of a call; a frozen server never answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """Security of connections, mostly in kazoo's terms; the same for the whole process."""

    digest: str | None = None
    """Credentials: ``user:password``."""
    use_ssl: bool = False
    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: str | None = None
    check_hostname: bool = True


_security = ZooKeeperSecurity()


def secure(security: ZooKeeperSecurity) -> None:
    """Set the security of all later connections; called when the settings are read."""
    global _security  # noqa: PLW0603  of the process, like its environment
    _security = security


def make_client(hosts: Sequence[str]) -> Any:
    """Return a client that, once started, tries to connect until ``close_client`` ends it.

    With a user, only this user may access nodes that the client creates; existing nodes keep their
    access list.
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
    """End the session and the threads, with or without a connection."""
    client.stop()
    client.close()
