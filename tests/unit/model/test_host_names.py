"""Hosts as clients and operators write them mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawlstream.egress import parse as pools
from crawlstream.errors import BadTable, ConfigError, InvalidRequest, InvalidUrl
from crawlstream.model.request import CrawlRequest
from crawlstream.model.scope import Scope, scope_fields
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.url import fold_host, host_name, host_rule
from crawlstream.model.web.address import address
from crawlstream.throttle import parse as rules
from crawlstream.throttle.edit import _checked
from crawlstream.wire import jsontext, requests
from crawlstream_frontier.link_rules.link_filters import HostSet
from pipeline_service.spec.memory import _domains

SPELLINGS = [
    "münchen.de",
    "MÜNCHEN.de.",
    "xn--mnchen-3ya.de",
    "XN--MNCHEN-3YA.DE",
    "https://münchen.de",
    "http://münchen.de/",
    "*.münchen.de",
    ".münchen.de",
    " münchen.de ",
]
CANONICAL = "xn--mnchen-3ya.de"
NO_HOSTS = ["", "*", "*.*.de", "a b.de", "http://a.de/path", "a.de?x", "a@b.de", "1.2.3", "[::1"]
RULE = ThrottleRule(hits=10, window_s=60)


def crawl_with(*allowed: str) -> CrawlRequest:
    """A crawl request as kafka-monitor reads it."""
    fields = {
        "appid": "app",
        "crawlid": "crawl",
        "url": "http://a.de/",
        "allowed_domains": [*allowed],
    }
    request = requests.decode(jsontext.dumps(fields))
    assert isinstance(request, CrawlRequest)
    return request


def allowed_domains(host: str) -> object:
    """The field of a crawl request."""
    (found,) = crawl_with(host).allowed_domains or ()
    return found


def scope(host: str) -> object:
    """Return the spelling of a host in the scope of ``crawl --allow`` with a prefix."""
    (expression,) = scope_fields(Scope.PREFIX, [], [host])["allow_regex"]
    return CANONICAL if CANONICAL.replace(".", r"\.") in expression.replace(r"\-", "-") else host


def throttle_rule(host: str) -> object:
    """A rule of the ZooKeeper node."""
    node = {"domains": {host: {"hits": 1, "window": 60}}}
    (found,) = rules.table_of(node, default=RULE, czxid=1, mzxid=1).rules
    return found


def blacklist(host: str) -> object:
    """A name on the blacklist of the ZooKeeper node."""
    (found,) = rules.table_of({"blacklist": [host]}, default=RULE, czxid=1, mzxid=1).blacklist
    return found


def proxy_domain(host: str) -> object:
    """A domain of the proxy pools."""
    (found,) = pools.table_of({"domains": {host: "direct"}}, 1, 1).domains
    return found


def memory_bounds(host: str) -> object:
    """A domain of a memory's bounds."""
    (found,) = _domains([host], "memory")
    return found


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "field",
    [
        allowed_domains,
        scope,
        throttle_rule,
        blacklist,
        proxy_domain,
        memory_bounds,
        host_name,
        fold_host,
    ],
)
def test_each_field_takes_a_host_in_any_spelling(
    field: Callable[[str], object], spelling: str
) -> None:
    """A host means its canonical name in each field that a client or an operator writes it in."""
    assert field(spelling) == CANONICAL


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_is_no_host_is_refused_by_name(text: str) -> None:
    """A request, an edit of the rules and the bounds of a memory name the invalid text."""
    with pytest.raises(InvalidRequest) as refused:
        crawl_with("fine.de", text)
    assert str(refused.value.problems[0]).startswith("$.allowed_domains[1]: ")
    with pytest.raises(BadTable):
        _checked(text)
    with pytest.raises(ConfigError):
        _domains([text], "memory")


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("Example.COM:8080", "example.com:8080"),
        ("https://example.com:8443/", "example.com:8443"),
        ("0:0::1", "[::1]"),
        ("[0:0::1]:80", "[::1]:80"),
        ("127.0.0.1.", "127.0.0.1"),
    ],
)
def test_ports_and_addresses_have_one_spelling(written: str, means: str) -> None:
    """Ports are kept; IPv6 addresses are compressed, in brackets."""
    assert crawl_with(written).allowed_domains == (means,)
    assert crawl_with(means, f" {means}").allowed_domains == (means,)


def test_a_port_is_refused_where_it_means_nothing() -> None:
    """Rules and bounds are for all ports of a host; ports that do not exist are none."""
    with pytest.raises(InvalidUrl, match="port"):
        host_name("example.com:80")
    with pytest.raises(InvalidUrl, match="port"):
        host_rule("example.com:99999")


def test_a_domain_that_no_page_is_counted_by_has_no_bounds() -> None:
    """A memory counts pages by registrable domains; it names the one that is meant."""
    with pytest.raises(ConfigError, match=r"part of example\.com"):
        _domains(["www.example.com"], "memory")


@pytest.mark.parametrize("link", ["http://www.münchen.de/", f"http://www.{CANONICAL}/"])
@pytest.mark.parametrize("rule", ["münchen.de", CANONICAL])
def test_a_rule_and_a_link_may_be_in_their_own_script(rule: str, link: str) -> None:
    """A link is within a rule however either is written."""
    assert HostSet([rule]).covers(address(link))
    assert HostSet([f"{rule}:80"]).covers(address(link))
    assert not HostSet([rule]).covers(address("http://münchen.com/"))
