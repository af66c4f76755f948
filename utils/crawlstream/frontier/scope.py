"""What limits are kept for beside the domain: one word for the whole cluster."""

from __future__ import annotations

from typing import cast

from crawlstream.errors import ConfigError
from crawlstream.frontier.care import Run

KEPT = {
    "": "for a domain",
    "type": "for each spider type",
    "group": "for each egress group",
    "type group": "for each spider type and egress group",
}
"""What limits are kept for, by the words of the scope."""


async def agree(run: Run, scope: str, *, by_force: bool = False) -> None:
    """Let limits be kept for each of these words: ``type``, ``group``, both or neither.

    The first process of a cluster to say so decides; ConfigError where another was first.
    """
    known = cast(bytes, await run("scope", scope, "1" if by_force else "")).decode()
    if known != scope:
        raise ConfigError(
            f"SCHEDULER_TYPE_ENABLED and SCHEDULER_IP_ENABLED require limits {KEPT[scope]}, but"
            f" this cluster keeps limits {KEPT.get(known, known)}; to change the cluster, stop"
            " all of its processes and run `crawlstream throttle rescope`"
        )
