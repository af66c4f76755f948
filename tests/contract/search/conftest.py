"""Search servers: one of the tests, with faults on demand, and an OpenSearch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opensearchpy import OpenSearch

from crawlstream_chaos.stores.running_opensearch import opensearch
from support.pipelines.search_server import SearchServer, search_server


@pytest.fixture
def served() -> Iterator[tuple[SearchServer, str]]:
    """A server of the tests, and its URL."""
    with search_server() as made:
        yield made


@pytest.fixture
def server(served: tuple[SearchServer, str]) -> SearchServer:
    """A server of the tests."""
    return served[0]


@pytest.fixture
def url(served: tuple[SearchServer, str]) -> str:
    """Its URL."""
    return served[1]


@pytest.fixture(scope="module")
def opensearch_url() -> Iterator[str]:
    """The URL of an OpenSearch."""
    with opensearch() as running:
        yield running.url


@pytest.fixture(params=["strict", "opensearch"])
def any_url(request: pytest.FixtureRequest) -> str:
    """The URL of the server of the tests, then of an OpenSearch; without an index."""
    if request.param == "strict":
        return str(request.getfixturevalue("url"))
    found = str(request.getfixturevalue("opensearch_url"))
    with OpenSearch([found]) as client:
        client.indices.delete(index="pages,pages-crawlstream", ignore_unavailable=True)
    return found
