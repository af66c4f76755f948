"""Nodes of ZooKeeper, as the commands read and write them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from crawlstream.called import COMMAND
from crawlstream.errors import ZooKeeperUnavailable

Table = TypeVar("Table")


def edit_node(edit: Coroutine[Any, Any, Table]) -> Table:
    """Let an editor's method run; add what to do to the error of a missing ZooKeeper."""
    try:
        return asyncio.run(edit)
    except ZooKeeperUnavailable as error:
        raise ZooKeeperUnavailable(
            f"{error}: start a cluster with `{COMMAND} up -d`, or set ZOOKEEPER_HOSTS"
        ) from error
