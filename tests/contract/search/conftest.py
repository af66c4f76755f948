"""A search server of the tests, with faults on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.pipelines.search_server import SearchServer, search_server


@pytest.fixture
def served() -> Iterator[tuple[SearchServer, str]]:
    """A server, and its URL."""
    with search_server() as made:
        yield made


@pytest.fixture
def server(served: tuple[SearchServer, str]) -> SearchServer:
    """A server."""
    return served[0]


@pytest.fixture
def url(served: tuple[SearchServer, str]) -> str:
    """Its URL."""
    return served[1]
