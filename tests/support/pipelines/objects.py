"""An object store for several processes, which none of this machine's file systems is."""

from __future__ import annotations

from crawlstream_chaos.pipelines.objects import Objects, register

__all__ = ["Objects", "register"]
