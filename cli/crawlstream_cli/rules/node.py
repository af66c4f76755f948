"""The node with the rules, as the commands read and write it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ZooKeeperUnavailable
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.throttle.edit import ThrottleEditor


def rules_editor() -> ThrottleEditor:
    """Return the editor of the cluster's rules."""
    settings = load_settings()
    return ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )


def edit_rules(edit: Coroutine[Any, Any, ThrottleTable]) -> ThrottleTable:
    """Let an editor's method run; add what to do to the error of a missing ZooKeeper."""
    try:
        return asyncio.run(edit)
    except ZooKeeperUnavailable as error:
        raise ZooKeeperUnavailable(
            f"{error}: start a cluster with `{COMMAND} up -d`, or set ZOOKEEPER_HOSTS"
        ) from error
