"""Changing the rules: read, change, write back if nobody else did."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.model.throttle import ThrottleRule, ThrottleTable


class ThrottleEditor:
    """Edits the node by compare-and-set on its version, keeping what it does not know.

    Each method connects, works and disconnects within 5 s, and returns the table as it is then.
    Errors: ZooKeeperUnavailable; Conflict (others kept writing); BadThrottleConfig (the node is
    unreadable, so it is not overwritten, or the new value is not valid).
    """

    def __init__(self, hosts: Sequence[str], path: str, *, default: ThrottleRule) -> None:
        raise NotImplementedError

    async def read(self) -> ThrottleTable:
        """The rules as they are in ZooKeeper now."""
        raise NotImplementedError

    async def seed(self) -> ThrottleTable:
        """Write the default rule into the node if it has none, creating the node if need be."""
        raise NotImplementedError

    async def set_rule(
        self,
        domain: str,
        *,
        hits: int | None = None,
        window_s: float | None = None,
        scale: float | None = None,
        concurrency: int | None = None,
        moderated: bool | None = None,
    ) -> ThrottleTable:
        """Set the rule of a domain, or of ``"default"``; None leaves a field as it is."""
        raise NotImplementedError

    async def remove_rule(self, domain: str) -> ThrottleTable:
        """Let the default rule apply to a domain again."""
        raise NotImplementedError

    async def block(self, domain: str) -> ThrottleTable:
        """Put a domain on the blacklist."""
        raise NotImplementedError

    async def unblock(self, domain: str) -> ThrottleTable:
        """Take a domain off the blacklist."""
        raise NotImplementedError
