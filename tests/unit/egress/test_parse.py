"""The node's bytes as proxy pools: what is accepted, what is refused, what errors never show."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from crawlstream.egress.parse import node_of
from crawlstream.egress.url import LONGEST, read_line
from crawlstream.errors import BadTable
from crawlstream.model.egress.pools import DIRECT, MOST_PROXIES, Pool, PoolTable
from crawlstream.zoo.document import MAX_BYTES

CANARY = "canary-5f3a"


def parse(text: str) -> PoolTable:
    """Read a table at version (3, 7)."""
    return node_of("/proxies").parse(text.encode(), 3, 7)


def pool(lines: str, policy: str = "") -> Pool:
    """A table's only pool, of these lines of YAML."""
    return parse(f"pools: {{de: {{{policy} proxies: [{lines}]}}}}").pools["de"]


def test_every_field_of_a_policy_is_read() -> None:
    """Text of an operator is what the table says, and omitted fields have their defaults."""
    table = parse(
        """
default: de
groups: {east: de}
domains: {Shop.Example.COM.: direct}
pools:
  bare: {}
  de:
    spread: 1
    per: crawl
    rest: 2.5
    dns: local
    plain: tunnel
    tls: [default, legacy]
    fallback: [bare, direct]
    apps: [shop]
    disabled: true
    tomorrow: {unknown: keys}
"""
    )
    assert table.pools["bare"] == Pool(name="bare")
    assert table.pools["de"] == Pool(
        name="de",
        spread=1,
        per="crawl",
        rest_s=2.5,
        dns="local",
        tls=("default", "legacy"),
        fallback=("bare", "direct"),
        apps=("shop",),
        disabled=True,
    )
    assert (table.czxid, table.mzxid, table.domains) == (3, 7, {"shop.example.com": DIRECT})


@pytest.mark.parametrize(
    ("host", "named", "group", "expected"),
    [
        ("a.test", "x", "east", "x"),
        ("www.shop.test", None, "east", "shop"),
        ("test", None, "east", "east"),
        ("test", None, "west", "rest"),
        ("badshop.test", None, "", "rest"),
        ("a.test", "removed", "", "removed"),
    ],
)
def test_a_page_has_the_pool_that_it_names_else_that_of_its_domain_else_of_its_worker(
    host: str, named: str | None, group: str, expected: str
) -> None:
    """The most specific word counts, and a pool that was removed has no other owner."""
    table = parse(
        "{default: rest, groups: {east: east}, domains: {shop.test: shop},"
        " pools: {rest: {}, east: {}, shop: {}, x: {}}}"
    )
    assert table.pool_for(host, named=named, group=group) == expected


def test_a_line_with_sessions_is_as_many_proxies() -> None:
    """Each has an id, a user name and a share of its own; the line is written once."""
    found = pool('{url: "http://u-{session}:p-{session}@gw:7777", sessions: 3, weight: 2}').proxies
    assert [proxy.session for proxy in found] == [1, 2, 3]
    assert len({proxy.id for proxy in found}) == 3
    user, password = found[2].credentials({}) or ("", None)
    assert (user, password and password.reveal(), found[2].weight) == ("u-3", "p-3", 2)


def test_variables_are_filled_in_by_the_worker_and_by_nobody_else() -> None:
    """The table, which travels, has their names; a missing one is named, and nothing else is."""
    (proxy,) = pool('"http://${DE_USER}:${DE_PASS}@gw.test:8000"').proxies
    assert proxy.shown == "http://DE_USER:•••@gw.test:8000"
    user, password = proxy.credentials({"DE_USER": "u:1", "DE_PASS": "s"}) or ("", None)
    assert (user, password and password.reveal()) == ("u:1", "s")
    with pytest.raises(KeyError, match="DE_PASS"):
        proxy.credentials({"DE_USER": "u"})


@pytest.mark.parametrize("character", list("!#$%&'()*+,/;=?@[]\\ \"<>^`|~é"))
def test_user_names_and_passwords_may_hold_every_character(character: str) -> None:
    """Percent-encoded, as URLs have it."""
    text = f"a{character}b"
    proxy = read_line(f"socks5://{quote(text, safe='')}:{quote(text, safe='')}@h.test:1080")
    assert proxy.credentials({}) == (text, proxy.password)
    assert proxy.password.reveal() == text


def test_the_password_is_no_part_of_the_id() -> None:
    """A password that is changed does not make a stranger of a proxy that the cluster knows."""
    one, same, other = map(
        read_line, ("http://u:a@h.test:80", "http://u:b@H.test.:80/", "http://v:a@h.test:80")
    )
    assert one.id == same.id != other.id
    assert one.id.startswith("p-")
    assert len(one.id) == 12


def test_lines_of_price_lists_are_read() -> None:
    """``host:port``, and ``host:port:user:password`` with whatever the password holds."""
    proxy = read_line(" h.test:8080:me:a:b@c \n")
    assert (proxy.address, proxy.user, proxy.password.reveal()) == ("h.test:8080", "me", "a:b@c")
    assert read_line("[::1]:3128").address == "[::1]:3128"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "not a mapping"),
        ("a: 1", "none of default, groups"),
        ("pools: []", "pools is not a mapping"),
        ("pools: {direct: {}}", "not a name for a pool"),
        ("pools: {'a b': {}}", "not a name for a pool"),
        ("pools: {a: null}", "pools: a is not a mapping"),
        ("default: nobody", "default names 'nobody', which is no pool"),
        ("default: [a]", "default names a list"),
        ("domains: {a.test: nobody}", "domains: a.test names 'nobody'"),
        ("domains: {a.test: direct, A.TEST.: de}\npools: {de: {}}", "stands there twice"),
        ("domains: {1: direct}", "not the name of a domain"),
        ("groups: {east: nobody}", "which is no pool"),
        ("pools: {a: {fallback: [b]}}", "pools: a: fallback names 'b'"),
        ("pools: {a: {fallback: direct}}", "is one text"),
        ("pools: {a: {spread: 0}}", "spread is 0, not a whole number from 1 to 1000"),
        ("pools: {a: {spread: true}}", "spread is True"),
        (f"pools: {{a: {{rest: {'9' * 400}}}}}", "rest is a huge number"),
        ("pools: {a: {rest: .nan}}", "rest is nan"),
        ("pools: {a: {rest: .inf}}", "rest is inf"),
        ("pools: {a: {spread: 1.5}}", "spread is 1.5, not a whole number"),
        ("pools: {a: {dns: yes please}}", "dns is 'yes please', not one of check"),
        ("pools: {a: {dns: local, plain: absolute}}", "dns: local needs plain: tunnel"),
        ("pools: {a: {tls: legacy}}", "pools: a: tls is one text, not a list"),
        ("pools: {a: {tls: [ssl3]}}", "tls names 'ssl3', which is not one of default, legacy"),
        ("pools: {a: {tls: []}}", "at least one TLS profile"),
        ("pools: {a: {tls: [legacy, legacy]}}", "none twice"),
        ("pools: {a: {disabled: 1}}", "disabled is 1, not true or false"),
        ("pools: {a: {proxies: {}}}", "proxies is not a list"),
        ("pools: {a: {proxies: ['http://h.test:1', 'http://h.test:1']}}", "line 2 repeats"),
        ("pools: &x {a: *x}", "refers to itself"),
        (f"pools: {{a: {{proxies: ['{'x' * MAX_BYTES}']}}}}", "more than the"),
    ],
)
def test_what_is_wrong_is_named(text: str, sentence: str) -> None:
    """Pool, field and value, so that a person finds it."""
    with pytest.raises(BadTable, match=sentence):
        parse(text)


@pytest.mark.parametrize(
    "line",
    [
        f"ftp://{CANARY}:{CANARY}@h.test:80",
        f"http://{CANARY}:{CANARY}@h.test",
        f"http://{CANARY}:{CANARY}@h.test:0",
        f"http://{CANARY}:{CANARY}@h.test:99999",
        f"http://{CANARY}:{CANARY}@h te.st:80",
        f"http://{CANARY}%0d%0aX:{CANARY}@h.test:80",
        f"http://{CANARY}%3Ax:{CANARY}@h.test:80",
        f"http://{CANARY}:{CANARY}@h.test:80/{CANARY}",
        f"http://{CANARY}:{CANARY}@[::1:80",
        f"http://{CANARY}-{{session}}:{CANARY}@h.test:80",
        f"socks5://{CANARY}:{'x' * 256}@h.test:1080",
        f"http://{CANARY}:{CANARY * LONGEST}@h.test:80",
        f"{{url: 'http://u:{CANARY}@h.test:80', sessions: 5}}",
        f"{{url: 'http://u:{CANARY}@h.test:80', weight: 0}}",
        f"{{url: 'http://u:{CANARY}@h.test:80', labels: 1}}",
        f"{{url: ['http://u:{CANARY}@h.test:80']}}",
        f"['http://u:{CANARY}@h.test:80']",
        f"!!int '{CANARY}'",
        f"!!timestamp '{CANARY}'",
        f"!!{CANARY} x",
    ],
)
def test_a_line_that_is_refused_is_not_repeated(line: str) -> None:
    """Errors travel into logs and replies: they say which line, not what stands there."""
    text = line if line[0] in "{[!" else f"'{line}'"
    with pytest.raises(BadTable) as refused:
        parse(f"pools: {{de: {{proxies: [http://ok.test:1, {text}]}}}}")
    assert CANARY not in str(refused.value)
    assert CANARY not in repr(refused.value)


def test_no_password_is_in_what_is_printed() -> None:
    """Secrets of the table, its pools, their proxies stay hidden: by repr, str and format."""
    table = parse(f"pools: {{de: {{proxies: ['http://u:{CANARY}@h.test:80']}}}}")
    (proxy,) = table.pools["de"].proxies
    printed = f"{table} {table!r} {proxy!s} {proxy.password} {proxy.shown} {proxy.credentials({})}"
    assert CANARY not in printed
    assert "•••" in printed


def test_ten_thousand_proxies_are_read_within_a_second_of_cpu() -> None:
    """Reads ten thousand proxies, as lines or sessions, within a second; refuses one more."""
    lines = "\n".join(f"  - http://user{n}:pass{n}@gw{n}.example.net:8000" for n in range(10_000))
    begun = time.process_time()
    table = parse(f"pools:\n de:\n  proxies:\n{lines}\n")
    assert time.process_time() - begun < 3
    assert len(table.pools["de"].proxies) == MOST_PROXIES
    with pytest.raises(BadTable, match="more than"):
        pool('{url: "http://{session}:p@gw:1", sessions: 10000}, "http://h.test:1"')


def test_a_pool_may_be_for_some_applications() -> None:
    """Others get that as an error, with the existing ones."""
    table = parse("pools: {de: {apps: [shop]}, fr: {}}")
    assert (
        table.refusal("de", "shop") == table.refusal("fr", "x") == table.refusal(DIRECT, "x") == ""
    )
    assert table.refusal("de", "x") == "the pool 'de' is not for the appid 'x'"
    assert table.refusal("it", "x") == "there is no pool 'it'; the pools are de, direct, fr"
