"""A whole cluster, a witness of its topics, and webs to crawl."""

from e2e.fixtures import cluster_fixture, serve_fixture, witness_fixture

__all__ = ["cluster_fixture", "serve_fixture", "witness_fixture"]
