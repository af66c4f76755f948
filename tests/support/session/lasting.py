"""Tests that share a whole cluster come first; when the last of them is over, it ends."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

_FOLDERS = frozenset({"chaos", "e2e", "fundamentals"})
_LASTS = pytest.StashKey[ExitStack]()


def may_share(item: pytest.Item) -> bool:
    """Return whether a test may use the shared cluster."""
    return not _FOLDERS.isdisjoint(item.nodeid.split("/")[:2])


def lasting(config: pytest.Config) -> ExitStack:
    """Return the stack that is closed after the last of them."""
    return config.stash.setdefault(_LASTS, ExitStack())
