"""The Lua of the frontier, where a test lets it be another one."""

from __future__ import annotations

from pathlib import Path

from crawlstream.frontier import scripts, sources

LUA = Path(sources.__file__).parent / "lua"


def forget_sources() -> None:
    """Let every operation be put together anew: what ``sources.read`` answers has changed."""
    for known in (sources.is_timed, sources.source_of, scripts.digest_of):
        known.cache_clear()
