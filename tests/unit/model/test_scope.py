"""Which links belong to a crawl that a person starts from a few URLs."""

from __future__ import annotations

import pytest

from crawling.links.patterns import Patterns
from crawlstream.model.scope import Scope, scope_fields
from crawlstream.model.web.address import address
from crawlstream_frontier.link_rules.link_filters import HostSet

DOCS = "https://docs.example.co.uk/guide/index.html?page=1/2"


def is_followed(scope: Scope, url: str, *allowed: str, seed: str = DOCS) -> bool:
    """Return whether a link passes the filters of a crawler, with the fields of a crawl."""
    fields = scope_fields(scope, [seed], allowed)
    domains, expressions = fields.get("allowed_domains"), fields.get("allow_regex")
    return (not domains or HostSet(domains).covers(address(url))) and (
        not expressions or Patterns(expressions).found_in(url)
    )


@pytest.mark.parametrize(
    ("scope", "within", "beyond"),
    [
        (
            Scope.HOST,
            ["https://docs.example.co.uk/", "http://docs.example.co.uk:81/", DOCS],
            ["https://example.co.uk/", "https://www.example.co.uk/", "https://github.com/"],
        ),
        (
            Scope.DOMAIN,
            ["https://example.co.uk/", "https://www.example.co.uk/", DOCS],
            ["https://other.co.uk/", "https://notexample.co.uk/"],
        ),
        (
            Scope.PREFIX,
            ["http://docs.example.co.uk/guide/", "https://docs.example.co.uk/guide/a/b", DOCS],
            [
                "https://docs.example.co.uk/guidebook",
                "https://docs.example.co.uk/",
                "https://docsxexample.co.uk/guide/",
                "https://github.com/?https://docs.example.co.uk/guide/",
            ],
        ),
        (Scope.ANY, ["https://github.com/", DOCS], []),
    ],
)
def test_links_are_followed_within_the_scope(
    scope: Scope, within: list[str], beyond: list[str]
) -> None:
    """Links within the scope pass the filters of a crawler, and no others."""
    assert [url for url in within if not is_followed(scope, url)] == []
    assert [url for url in beyond if is_followed(scope, url)] == []


@pytest.mark.parametrize("scope", list(Scope))
def test_further_domains_may_be_added(scope: Scope) -> None:
    """They are followed besides the scope; with `any` only they are followed."""
    assert is_followed(scope, "https://cdn.example.net/a", "example.net")
    assert not is_followed(scope, "https://notexample.net/a", "example.net")
    assert is_followed(scope, DOCS, "example.net") is (scope is not Scope.ANY)


def test_a_prefix_without_a_path_is_the_host() -> None:
    """A seed that is no more than a host has the whole of it as its folder."""
    for seed in ("example.com", "http://example.com/", "http://example.com?q=a/b"):
        assert is_followed(Scope.PREFIX, "http://example.com/deep/below", seed=seed), seed
        assert not is_followed(Scope.PREFIX, "http://example.community/", seed=seed), seed


@pytest.mark.parametrize("seed", ["http://a.example/~u/%c3%bc/", "a.example/%7Eu/ü/x"])
def test_a_prefix_means_its_place_in_any_spelling(seed: str) -> None:
    """Escapes of one character, and of what needs none, are one place."""
    for path in ("~u/ü/", "%7eu/%C3%BC/x", "~u/%c3%bc/?y"):
        assert is_followed(Scope.PREFIX, address(f"http://a.example/{path}"), seed=seed), path
    assert not is_followed(Scope.PREFIX, "http://a.example/~u/%C3%BD/", seed=seed)
    assert not is_followed(Scope.PREFIX, "http://a.example/~U/%C3%BC/", seed=seed)


def test_seeds_that_are_no_urls_say_nothing() -> None:
    """The cluster refuses them; the others have their scope."""
    fields = scope_fields(Scope.HOST, ["ftp://x/", "http://a.example/", "A.example"])
    assert fields == {"allowed_domains": ["a.example"]}
