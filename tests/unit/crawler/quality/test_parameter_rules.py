"""Parameters that a crawl drops from links, or keeps against the waste guard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crawling import ClusterSpider, Outlinks, links_of
from crawling.quality.parameter_rules import ParameterRules, parameter_rules
from crawling.testing import crawl_page
from crawling.waste.decisions import LinkDecision, decide
from crawlstream.model.web.url_parameters import Parameters
from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.verdicts import SiteVerdicts

HERE = "http://a.example/"


def _rules(keep: str = "", drop: str = "", *, operator: str = "") -> ParameterRules:
    crawl = Parameters(keep=tuple(keep.split()), drop=tuple(drop.split()))
    found = parameter_rules(crawl, (), tuple(operator.split()))
    assert found
    return found


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("p?utm_source=x&id=1", "p?id=1"),
        ("p?id=1&UTM_x=2&b=%41&&c", "p?id=1&UTM_x=2&b=%41&&c"),
        ("p?id=1&ref&b=+&utm_=#ref=2", "p?id=1&b=+#ref=2"),
        ("p?ref=1", "p"),
        ("p?ref=1#f?ref=2", "p#f?ref=2"),
        ("p#?ref=1", "p#?ref=1"),
        ("p?", "p?"),
        ("p;ref=1?refs=2", "p;ref=1?refs=2"),
    ],
)
def test_links_lose_dropped_parameters_and_keep_their_spelling(url: str, clean: str) -> None:
    """Names are compared as the site writes them; a star stands for any end."""
    rules = _rules(drop="utm_* ref")
    assert rules.clean(HERE + url) == HERE + clean
    assert rules.clean(HERE + clean) == HERE + clean


def test_a_crawl_decides_before_the_operator_and_keeps_before_it_drops() -> None:
    """Prefers the crawl to the operator and `keep` to `drop`; with a star, keeps all others."""
    url = HERE + "?a=1&b=2&ab=3"
    assert _rules(operator="a*").clean(url) == HERE + "?b=2"
    assert _rules("ab", "a* b", operator="ab").clean(url) == HERE + "?ab=3"
    assert _rules("*", operator="a*").clean(url) == url
    assert _rules(drop="*").clean(url) == HERE
    assert parameter_rules(None, (), ()) is None


def test_the_guard_does_not_judge_by_kept_parameters() -> None:
    """Families of other parameters are judged as ever; so are searches."""
    refused = {family_hash("?sort"): FamilyState.REFUSED, family_hash("?view"): FamilyState.LAST}
    verdicts = SiteVerdicts(0, refused, {family_hash("?sid"): 16})

    def judge(query: str, keep: str) -> LinkDecision:
        return decide(HERE + query, verdicts, "", _rules(keep, drop="x"))

    assert judge("?sort=1", "view").refused == "guard_parameter"
    assert judge("?sort=1", "s*") == LinkDecision(HERE + "?sort=1")
    assert judge("?sort=1&view=2", "sort").is_last
    assert judge("?sid=1&a=2", "sort").url == HERE + "?a=2"
    assert judge("?sid=1&a=2", "sid").url == HERE + "?sid=1&a=2"
    assert (judge("?q=1", "sort").is_last, judge("?q=1", "q").is_last) == (True, False)
    assert decide(HERE + "?q=1", None, "", _rules("q")) == LinkDecision(HERE + "?q=1")


class Linking(ClusterSpider):
    """Follows all links of a page."""

    name = "linking"

    def parse(self, response: Any, **_kwargs: Any) -> Iterator[Any]:
        """Yield links and the result."""
        links, refused = links_of(response)
        yield Outlinks([url for url, _ in links], refused)
        yield self.result(response, links=links)


def test_links_are_one_page_without_what_is_dropped() -> None:
    """Filters see a link as the page has it, and results name it so."""
    body = "".join(f'<a href="/p?utm_x={n}&id=1">{n}</a>' for n in range(4))
    asked = {"maxdepth": 1, "parameters": {"drop": ["utm_*"]}, "deny_regex": ["utm_x=3"]}
    found = crawl_page(Linking, HERE, f"<p>{body}</p>", request=asked)
    assert [one.url for one in found.outlinks] == [HERE + "p?id=1"]
    assert {name: n for name, n in found.filtered.items() if n} == {"duplicate": 2, "regex": 1}
    (result,) = found.results
    assert [link["url"] for link in result["links"]] == [
        f"{HERE}p?utm_x={n}&id=1" for n in range(3)
    ]
