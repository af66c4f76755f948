"""Groups in the node's bytes: what is accepted, what is refused, and in which words."""

from __future__ import annotations

from ipaddress import ip_address

import msgpack  # type: ignore[import-untyped]
import pytest

from crawlstream.errors import BadTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import MOST_GROUPS, MOST_MEMBERS, Group, Groups
from crawlstream.throttle import edit_groups
from crawlstream.throttle.parse import node_of
from crawlstream_frontier.codec.rules import check_shares, pack_table, share_of, unpack_table

DEFAULT = ThrottleRule(hits=10, window_s=60)
LIMIT = "hits: 5, window: 1"


def parse(text: str) -> ThrottleTable:
    """Read a table with a default rule."""
    return node_of("/rules", DEFAULT).parse(f"domains: {{}}\n{text}".encode(), 1, 1)


def error_of(text: str) -> str:
    """Return why a table is refused."""
    with pytest.raises(BadTable) as caught:
        parse(text)
    return str(caught.value)


def test_groups_are_read_with_their_limits_and_members() -> None:
    """Reads groups in order, with members in any spelling, bursts, and 8 requests at a time."""
    table = parse(
        f"""
groups:
  hoster: {{{LIMIT}, members: [A.example., "*.b.example", bücher.example, 192.0.2.7]}}
  other: {{hits: 2, window: 0.5, concurrency: 3, members: []}}
"""
    )
    assert table.groups.by_name == {
        "hoster": Group(
            rule=ThrottleRule(hits=5, window_s=1, moderated=False, concurrency=8),
            members=("a.example", "b.example", "xn--bcher-kva.example", "192.0.2.7"),
        ),
        "other": Group(rule=ThrottleRule(hits=2, window_s=0.5, moderated=False, concurrency=3)),
    }
    assert not parse("blacklist: []").groups


def test_the_gate_of_an_address_is_that_of_a_name_a_network_or_its_own() -> None:
    """Takes the gate of a name, a network or the address, in this order; IPv6 counts by /64."""
    table = parse(
        f"""
groups:
  named: {{{LIMIT}, members: [a.example]}}
  hoster: {{{LIMIT}, members: [192.0.2.0/25, "2001:db8:1::/48", b.example]}}
  other: {{{LIMIT}, members: [192.0.2.0/24]}}
addresses: {{hits: 20, window: 1, except: [198.51.100.0/24, "192.0.2.200"]}}
"""
    )
    gates = {
        (site, at): table.groups.gate_at(site, ip_address(at))
        for site, at in [
            ("a.example", "192.0.2.1"),
            ("www.b.example", "203.0.113.1"),
            ("c.example", "192.0.2.1"),
            ("c.example", "192.0.2.129"),
            ("c.example", "203.0.113.7"),
            ("c.example", "198.51.100.7"),
            ("c.example", "2001:db8:1:2::7"),
            ("c.example", "2001:db8:2:3:4:5:6:7"),
        ]
    }
    assert list(gates.values()) == [
        "=named", "=hoster", "=hoster", "=other", "=@203.0.113.7", "", "=hoster",
        "=@2001:db8:2:3::",
    ]  # fmt: skip
    assert unpack_table(_blob(table)).groups == table.groups
    assert not parse(f"groups: {{a: {{{LIMIT}, members: [b.org]}}}}").groups.places


def _blob(table: ThrottleTable) -> bytes:
    """The table as the frontier keeps it."""
    blob: bytes = msgpack.unpackb(pack_table(table, adopt=False), raw=True)[5]
    return blob


def test_the_first_group_that_covers_a_site_counts() -> None:
    """Applies the first group that covers a site, however specific later members are."""
    table = parse(
        f"""
groups:
  one: {{{LIMIT}, members: [a.example]}}
  two: {{{LIMIT}, members: [example, a.example, b.org]}}
"""
    )
    groups = {name: table.group_of(name) for name in ("a.example", "www.a.example", "c.example")}
    assert groups == {"a.example": "one", "www.a.example": "one", "c.example": "two"}
    assert table.group_of("http://b.org/x") == "two"
    assert table.group_of("example.net") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("groups: [a]", "groups is a list, not a mapping (empty: {})"),
        ("groups: {A: {hits: 1, window: 1}}", "groups: 'A' is not a name: 1 to 64 of a-z"),
        ("groups: {1: {hits: 1, window: 1}}", "groups: 1 is not a name"),
        ("groups: {a: 5}", "groups: a is 5, not a mapping with hits, window and members"),
        ("groups: {a: {window: 1}}", "groups: a: hits is missing"),
        ("groups: {a: {hits: 1, window: x}}", "groups: a: window is 'x', not a number of seconds"),
        ("groups: {a: {hits: 0, window: 1}}", "groups: a: hits is 0: put the domains on the black"),
        ("groups: {a: {hits: 1, window: 1, gentle: 1}}", "groups: a: a group has no gentle"),
        ("groups: {a: {hits: 1, window: 1, members: b.org}}", "members is 'b.org', not a list"),
        ("groups: {a: {hits: 1, window: 1, members: [7]}}", "groups: a: members: 7 is not a host"),
        (
            "groups: {a: {hits: 1, window: 1, members: [203.0.113.0/7]}}",
            "groups: a: members: 203.0.113.0/7 is too large a network: a prefix of /8 or longer",
        ),
        (
            "groups: {a: {hits: 1, window: 1, members: ['2001:db8::/31']}}",
            "groups: a: members: 2001:db8::/31 is too large a network: a prefix of /32 or longer",
        ),
        ("groups: {a: {hits: 1, window: 1, members: [x/24]}}", "a: members: not a host name"),
        (
            "groups: {a: {hits: 1, window: 1, members: [shop.example.com]}}",
            "groups: a: shop.example.com is counted as a part of example.com, so it cannot be in a",
        ),
        ("addresses: [1]", "addresses is a list, not a mapping with hits and window"),
        ("addresses: {hits: 1}", "addresses: window is missing"),
        ("addresses: {hits: 1, window: 1, but: []}", "addresses: there is no but; there are hits"),
        ("addresses: {hits: 1, window: 1, except: x}", "except is 'x', not a list of networks"),
        ("addresses: {hits: 1, window: 1, except: [x]}", "'x' is not a network like 192.0.2.0/24"),
    ],
)
def test_a_wrong_part_makes_the_whole_node_wrong(text: str, error: str) -> None:
    """The error names the place and the remedy."""
    assert error in error_of(text)


def test_a_host_with_a_rule_of_its_own_may_be_a_member() -> None:
    """Its requests are counted separately."""
    table = node_of("/rules", DEFAULT).parse(
        f"domains: {{shop.example.com: {{{LIMIT}}}}}\n"
        f"groups: {{a: {{{LIMIT}, members: [shop.example.com]}}}}".encode(),
        1,
        1,
    )
    assert table.group_of("shop.example.com") == table.group_of("x.shop.example.com") == "a"
    assert table.group_of("example.com") is None


def test_the_number_of_groups_and_members_is_bounded() -> None:
    """The next one is refused."""
    names = [f"g{n}: {{{LIMIT}}}" for n in range(MOST_GROUPS + 1)]
    assert len(parse(f"groups: {{{', '.join(names[1:])}}}").groups.by_name) == MOST_GROUPS
    assert f"{MOST_GROUPS + 1} are too many" in error_of(f"groups: {{{', '.join(names)}}}")
    members = [f"n{n}.example" for n in range(MOST_MEMBERS + 1)]
    text = f"groups: {{a: {{{LIMIT}, members: [{', '.join(members)}]}}}}"
    assert f"{MOST_MEMBERS + 1} members are too many" in error_of(text)


@pytest.mark.parametrize(
    ("rule", "partitions", "share"),
    [
        (ThrottleRule(hits=20, window_s=1, moderated=False, concurrency=8), 1, "20 1000 0 8"),
        (ThrottleRule(hits=20, window_s=1, moderated=False, concurrency=8), 4, "5 1000 0 2"),
        (ThrottleRule(hits=7, window_s=1, moderated=False, concurrency=9), 4, "1 1000 0 2"),
        (ThrottleRule(hits=2, window_s=3, moderated=False, concurrency=4), 4, "1 6000 0 1"),
    ],
)
def test_partitions_have_equal_shares(rule: ThrottleRule, partitions: int, share: str) -> None:
    """Less than one hit per window becomes one hit per longer window; all shares fit the limit."""
    assert share_of(rule, partitions) == share
    hits, window_ms, _, concurrency = map(int, share.split())
    assert partitions * hits / window_ms <= rule.hits / (1000 * rule.window_s)
    assert partitions * concurrency <= rule.concurrency


def test_a_group_without_a_request_for_each_partition_is_refused() -> None:
    """The remedy is named."""
    table = parse(f"groups: {{a: {{{LIMIT}, concurrency: 3}}}}")
    check_shares(table, 3)
    with pytest.raises(BadTable, match="concurrency is 3, but each of the 4 partitions needs 1"):
        check_shares(table, 4)
    with pytest.raises(BadTable, match="addresses: concurrency is 3, but each of the 4"):
        check_shares(parse(f"addresses: {{{LIMIT}, concurrency: 3}}"), 4)


def test_a_group_is_edited_without_touching_others() -> None:
    """Members are added once in any spelling, limits are changed alone, unknown ones refused."""
    document: dict[str, object] = {"groups": {"b": {"hits": 1, "window": 1}}, "more": 1}
    edit_groups.add("a", ["x.org", "*.X.org", "y.org"], {"hits": 5, "window": 1}, document)
    edit_groups.add("a", ["y.org.", "z.org"], {"hits": 6}, document)
    group = {"hits": 6, "window": 1, "members": ["x.org", "y.org", "z.org"]}
    assert document == {"groups": {"b": {"hits": 1, "window": 1}, "a": group}, "more": 1}
    edit_groups.remove("a", ["X.org"], document)
    assert document["groups"] == {
        "b": {"hits": 1, "window": 1},
        "a": {**group, "members": ["y.org", "z.org"]},
    }
    with pytest.raises(BadTable, match=r"the group a has no member x\.org"):
        edit_groups.remove("a", ["x.org"], document)
    edit_groups.remove("a", [], document)
    assert document["groups"] == {"b": {"hits": 1, "window": 1}}
    with pytest.raises(BadTable, match="there is no group a"):
        edit_groups.remove("a", [], document)


def test_networks_and_the_limit_of_addresses_are_edited() -> None:
    """Networks like names, in any spelling; limits of addresses one by one."""
    document: dict[str, object] = {}
    edit_groups.add("a", ["192.0.2.7/24", "192.0.2.0/24"], {"hits": 1, "window": 1}, document)
    edit_groups.limit_addresses({"hits": 1, "window": 1}, document)
    edit_groups.limit_addresses({"hits": 2, "except": ["192.0.2.0/24"]}, document)
    assert document == {
        "groups": {"a": {"hits": 1, "window": 1, "members": ["192.0.2.7/24"]}},
        "addresses": {"hits": 2, "window": 1, "except": ["192.0.2.0/24"]},
    }
    edit_groups.remove("a", ["192.0.2.0/24"], document)
    edit_groups.free_addresses(document)
    assert document == {"groups": {"a": {"hits": 1, "window": 1, "members": []}}}


def test_no_groups_is_false() -> None:
    """Tables without groups are as before."""
    assert not Groups()
    assert Groups[ThrottleRule]().gates() == {}
