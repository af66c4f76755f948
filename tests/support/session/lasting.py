"""Tests that share a whole cluster come first; when the last of them is over, it ends."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

_FOLDERS = frozenset({"chaos", "e2e", "fundamentals"})
_LASTS = pytest.StashKey[ExitStack]()


def may_share(item: pytest.Item) -> bool:
    """Whether it is one of those that may work with the cluster."""
    return not _FOLDERS.isdisjoint(item.nodeid.split("/")[:2])


def lasting(config: pytest.Config) -> ExitStack:
    """What is closed after the last of them."""
    return config.stash.setdefault(_LASTS, ExitStack())
