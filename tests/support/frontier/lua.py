"""The Lua of the frontier, where a test lets it be another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crawlstream_frontier import scripts, sources

LUA = Path(sources.__file__).parent / "lua"


def forget_sources() -> None:
    """Assemble every operation again: the answers of ``sources.read`` have changed."""
    for known in (sources.is_timed, sources.source_of, scripts.digest_of):
        known.cache_clear()


@contextmanager
def rewritten(right: str, wrong: str) -> Iterator[None]:
    """Have every operation say the one where it says the other, for the length of the block."""
    read = sources.read
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "read", lambda file: read(file).replace(right, wrong))
            forget_sources()
            yield
    finally:
        forget_sources()


@contextmanager
def planted(right: str, wrong: str) -> Iterator[None]:
    """Plant a bug in the one place of the Lua that has this text."""
    texts = [path.read_text() for path in LUA.rglob("*.lua")]
    assert sum(text.count(right) for text in texts) == 1, "where it is planted has changed"
    with rewritten(right, wrong):
        yield
