"""Priority rules: the first that a link fits decides about its priority, or leaves it out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request

from crawling import ClusterSpider, Outlinks
from crawling.links.by_priority import by_priority
from crawling.spiders.link import LinkSpider
from crawling.spiders.sitemap import SitemapSpider
from crawling.testing import Outlink, crawl_page
from crawlstream.model.web.priorities import PriorityRule
from crawlstream_frontier.link_rules.link_priorities import LinkPriorities, priorities_by
from support.pages import page_at

HERE = "http://a.example/"
SHOP: Sequence[dict[str, Any]] = (
    {"text": "(?i)sale", "add": 500},
    {"match": "/products/", "add": 200},
    {"match": "/basket", "drop": True},
)

_RULES = st.lists(
    st.builds(
        PriorityRule,
        match=st.sampled_from([None, "/a", "b$", "a.*b", "[0-9]", "é"]),
        types=st.sampled_from([None, ("pdf",), ("b", "tar.gz")]),
        depth=st.sampled_from([None, (1, 1), (2, 4)]),
        hosts=st.sampled_from([None, ("a.example",), ("x.a.example", "c.example")]),
        text=st.sampled_from([None, "next", "^a", ".*"]),
    ),
    max_size=6,
).map(tuple)
_LINKS = st.builds(
    "http://{}/{}".format,
    st.sampled_from(["a.example", "x.a.example", "b.example", "c.example"]),
    st.text("ab/1.é", max_size=6) | st.sampled_from(["a.pdf", "b.tar.gz", "a;x.pdf"]),
)


def _fits(rule: PriorityRule, url: str, depth: int, text: str) -> bool:
    host, _, path = url.removeprefix("http://").partition("/")
    path = path.rpartition("/")[2].partition(";")[0]
    return (
        (rule.match is None or re.search(rule.match, url) is not None)
        and (rule.types is None or path.endswith(tuple(f".{each}" for each in rule.types)))
        and (rule.depth is None or rule.depth[0] <= depth <= rule.depth[1])
        and (
            rule.hosts is None
            or host in rule.hosts
            or host.endswith(tuple(f".{each}" for each in rule.hosts))
        )
        and (rule.text is None or (bool(text) and re.search(rule.text, text) is not None))
    )


@settings(max_examples=300)
@given(_RULES, _LINKS, st.integers(1, 5), st.sampled_from(["", "next", "a b"]))
def test_the_first_rule_that_fits_decides(
    rules: Sequence[PriorityRule], url: str, depth: int, text: str
) -> None:
    """Applies the first rule whose conditions all hold, like a plain Python reading."""
    expected: list[int | None] = [
        place for place, rule in enumerate(rules) if _fits(rule, url, depth, text)
    ]
    assert LinkPriorities(rules).place_of(url, depth, text) == next(iter(expected), None)


class Giver(ClusterSpider):
    """Yields what its test wants."""

    name = "giver"
    gives: Sequence[Any] = ()

    def parse(self, response: Any, **_kwargs: Any) -> Iterator[Any]:
        """Yield it, and the result."""
        yield from self.gives
        yield self.result(response)


def _followed(
    *gives: Any, rules: Sequence[dict[str, Any]] = SHOP, spider: type[Giver] = Giver, **asked: Any
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the priorities of a page's children, by path, and what was left out."""
    giver = type("Giver", (spider,), {"gives": gives})
    asked = {"maxdepth": 9, "priority": 10, "priorities": list(rules), **asked}
    found = crawl_page(giver, HERE, request=asked)
    assert found.outcome == "done"
    priorities = {one.url.removeprefix(HERE): one.priority for one in found.outlinks}
    return priorities, {name: count for name, count in found.filtered.items() if count}


def test_links_wait_by_the_priorities_of_their_rules() -> None:
    """Ten less than their page, and the change; a text counts where the link has one."""
    urls = [f"{HERE}{path}" for path in ("x", "products/1", "basket?add=1", "s", "products/2")]
    links = Outlinks(urls, texts=["", "one", "Sale", "On SALE", "two"])
    expected = {"x": 0, "products/1": 200, "s": 500, "products/2": 200, "basket?add=1": 500}
    assert _followed(links) == (expected, {})


@pytest.mark.parametrize("versions", [(), ("v", "")])
def test_a_link_is_left_out_and_counted(versions: Sequence[str]) -> None:
    """Leaves out and counts a link, with or without a version."""
    links = Outlinks([f"{HERE}basket#a", f"{HERE}products/1"], versions=versions)
    assert _followed(links) == ({"products/1": 200}, {"rule": 1})


def test_requests_of_spiders_have_rules_too() -> None:
    """The spider's own priority and the rule's add up."""
    paths = {"products/1": 5, "basket": 0, "x": 0}
    gives = [Request(f"{HERE}{path}", priority=own) for path, own in paths.items()]
    assert _followed(*gives) == ({"products/1": 205, "x": 0}, {"rule": 1})


def test_priorities_stay_within_the_range_of_the_frontier() -> None:
    """A chain of preferred pages ends at the bound."""
    gives = Request(f"{HERE}x", priority=7500)
    assert _followed(gives, rules=[{"add": 1000}]) == ({"x": 8000}, {})


def test_what_leads_nowhere_is_counted_as_without_rules() -> None:
    """A rule of hosts does not trip over it."""
    links = Outlinks(["http://[x/", "javascript:x", f"{HERE}x"])
    rules = [{"hosts": ["a.example"], "add": 10}]
    assert _followed(links, rules=rules) == ({"x": 10}, {"url": 1, "scheme": 1})


def test_sitemaps_themselves_have_no_rules() -> None:
    """Files that a sitemap spider keeps for itself are not pages; those that they list are."""

    class Sitemaps(Giver):
        fetches_pages = False

    gives = Outlinks([f"{HERE}s.xml"]), Outlinks([f"{HERE}p"], spiderid="link")
    found = _followed(*gives, rules=[{"drop": True}], spider=Sitemaps)
    assert found == ({"s.xml": 0}, {"rule": 1})


def test_rules_drop_what_a_sitemap_lists_by_title_and_level() -> None:
    """The title is the text; the file's own level does not matter."""
    items = "".join(
        f"<item><link>{HERE}{title}</link><title>{title}</title></item>" for title in ("old", "new")
    )
    asked = {"maxdepth": 2, "priorities": [{"text": "old", "depth": [1, 1], "drop": True}]}
    found = crawl_page(
        SitemapSpider, f"{HERE}feed", f"<rss><channel>{items}</channel></rss>", request=asked
    )
    assert ([one.url for one in found.outlinks], found.filtered["rule"]) == ([f"{HERE}new"], 1)
    assert [link["url"] for link in found.results[0]["links"]] == [f"{HERE}new"]


def test_the_link_spider_hands_texts_on_and_leaves_out_what_rules_drop() -> None:
    """The result's links are those that are followed; the depth is that of the linked page."""
    rules = [
        {"text": "buy", "drop": True},
        {"text": "see", "add": 100},
        {"depth": [3, 9], "drop": True},
    ]
    asked = {"maxdepth": 9, "priorities": rules}
    markup = "<a href=/1>buy</a><a href=/2>see</a><a href=/3>x</a>"
    for depth, left in ((1, {"2": 91, "3": -9}), (2, {"2": 91})):
        page = Outlink(HERE, depth=depth, priority=1, seed_url=f"{HERE}seed")
        found = crawl_page(LinkSpider, page, markup, request=asked)
        assert {one.url.removeprefix(HERE): one.priority for one in found.outlinks} == left
        assert found.filtered["rule"] == 3 - len(left)
        links = [link["url"].removeprefix(HERE) for link in found.results[0]["links"]]
        assert links == list(left)


def test_without_rules_links_are_not_looked_at() -> None:
    """They are passed on as they came."""
    links = Outlinks([f"{HERE}x"])
    assert list(by_priority(links, page_at(HERE))) == [(0, links)]


def test_an_expression_of_a_client_takes_linear_time() -> None:
    """RE2 has no backtracking; rules that are too large together are not built."""
    rules = priorities_by((PriorityRule(match=r"^(a+)+$", drop=True),))
    assert rules.place_of("http://a.example/" + "a" * 2000 + "!", 1) is None
    with pytest.raises(ValueError, match="too large together"):
        LinkPriorities([PriorityRule(match=f"([^/]{{1,30}}/){{30}}{n}") for n in range(32)])
