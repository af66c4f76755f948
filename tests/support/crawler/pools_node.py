"""The node of the pools in a real ZooKeeper, as any other tool sees it."""

from __future__ import annotations

from typing import Any

import yaml
from kazoo.client import KazooClient


class Node:
    """The node as any other tool sees it."""

    def __init__(self, client: KazooClient, path: str) -> None:
        self._client = client
        self._path = path

    @property
    def content(self) -> Any:
        """The YAML, read."""
        return yaml.safe_load(self._client.get(self._path)[0])

    def write(self, text: str) -> None:
        """Write it, over whatever is there."""
        self._client.ensure_path(self._path)
        self._client.set(self._path, text.encode())
