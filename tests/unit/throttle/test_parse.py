"""The node's bytes as rules: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import time

import pytest

from crawlstream.errors import BadTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import fold_host
from crawlstream.throttle.parse import node_of
from crawlstream.zoo.document import MAX_BYTES, read_document, write_document

DEFAULT = ThrottleRule(hits=10, window_s=60)


def parse(data: bytes | str, default: ThrottleRule = DEFAULT) -> ThrottleTable:
    """Read a table at version (3, 7)."""
    raw = data.encode() if isinstance(data, str) else data
    return node_of("/rules", default).parse(raw, 3, 7)


def test_a_node_of_the_predecessor_is_read() -> None:
    """Trailing dots, missing scales, integers and floats are as its tools wrote them."""
    table = parse(
        """
blacklist:
- 127.0.20.109.
- bbx-two.co.uk
domains:
  127.0.20.111.:
    hits: 10
    scale: 0.2
    window: 10
  example.org:
    hits: 60.0
    window: 60
"""
    )
    assert table.rules == {
        "127.0.20.111": ThrottleRule(hits=10, window_s=10, scale=0.2),
        "example.org": ThrottleRule(hits=60, window_s=60),
    }
    assert table.blacklist == {"127.0.20.109", "bbx-two.co.uk"}
    assert (table.default, table.czxid, table.mzxid) == (DEFAULT, 3, 7)


def test_the_default_of_the_node_replaces_that_of_the_settings() -> None:
    """Rules inherit moderation and concurrency from it, but no hits and no scale."""
    table = parse(
        "default: {hits: 3, window: 1, scale: 0.5, moderated: false, concurrency: 2}\n"
        "domains: {a.com: {hits: 9, window: 2}}"
    )
    assert table.default == ThrottleRule(
        hits=3, window_s=1, scale=0.5, moderated=False, concurrency=2
    )
    assert table.rules["a.com"] == ThrottleRule(hits=9, window_s=2, moderated=False, concurrency=2)


def test_an_explicitly_empty_table_is_a_table() -> None:
    """``domains: {}`` is an edit; a missing section is an empty one."""
    assert parse("domains: {}") == ThrottleTable(default=DEFAULT, czxid=3, mzxid=7)
    assert parse("blacklist: [a.com]").blacklist == {"a.com"}


def test_of_two_spellings_the_slower_rule_applies() -> None:
    """Applies the slower of two spellings, whichever stands first."""
    fast, slow = "{hits: 9, window: 1}", "{hits: 100, window: 60}"
    for first, second in ((fast, slow), (slow, fast)):
        table = parse(f"domains: {{A.com.: {first}, a.com: {second}}}")
        assert table.rules == {"a.com": ThrottleRule(hits=100, window_s=60)}


def test_unknown_keys_are_ignored_and_kept() -> None:
    """Other tools' keys neither break the table nor get lost on the way through the editor."""
    text = b"zz: {x: [1, 2]}\ndomains: {a.com: {hits: 1, window: 1, note: slow}}\nblacklist: []\n"
    assert parse(text).rules == {"a.com": ThrottleRule(hits=1, window_s=1)}
    document = read_document(write_document(read_document(text)))
    assert document == read_document(text)
    assert list(document) == ["zz", "domains", "blacklist"]


def test_rules_may_be_shared_by_aliases() -> None:
    """Anchors and merge keys work as YAML defines them."""
    table = parse("domains: {a.com: &r {hits: 1, window: 2}, b.com: *r, c.com: {<<: *r, hits: 3}}")
    assert table.rules["b.com"] == table.rules["a.com"]
    assert table.rules["c.com"] == ThrottleRule(hits=3, window_s=2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the node is empty"),
        (" \n", "the node is empty"),
        ("[1, 2]", "the node holds a list, not a mapping"),
        ("just text", "the node holds 'just text', not a mapping"),
        ("other: 1", "none of default, domains, blacklist"),
        ("domains: [", "not YAML: .* in line"),
        ("domains: {}\n---\ndomains: {}", "another document in line 2"),
        ("domains: !!python/name:os.system x", "not YAML: could not determine a constructor"),
        ("domains: !!bool x", "not YAML"),
        ("domains: 2026-99-99", "not YAML"),
        (b"domains: \xff", "not UTF-8"),
        ("domains: null", "domains is nothing, not a mapping"),
        ("domains: [a.com]", "domains is a list, not a mapping"),
        ("domains: {1.5: {hits: 1, window: 1}}", "domains: 1.5 is not the name of a domain"),
        ("domains: {'': {hits: 1, window: 1}}", "domains: '' is not the name of a domain"),
        ("domains: {a.com: }", "domains: a.com is nothing, not a mapping"),
        ("domains: {a.com: {window: 1}}", "domains: a.com: hits is missing"),
        ("domains: {a.com: {hits: 1}}", "domains: a.com: window is missing"),
        ("domains: {a.com: {hits: -1, window: 1}}", "a.com: hits is -1, not a whole number"),
        ("domains: {a.com: {hits: true, window: 1}}", "a.com: hits is True, not a whole number"),
        ("domains: {a.com: {hits: '1', window: 1}}", "a.com: hits is '1', not a whole number"),
        ("domains: {a.com: {hits: 0xffffffffffffffffff, window: 1}}", "hits is a huge number"),
        ("domains: {a.com: {hits: 1.5, window: 1}}", "a.com: hits is 1.5, not a whole number"),
        ("domains: {a.com: {hits: .inf, window: 1}}", "a.com: hits is inf, not a whole number"),
        ("domains: {a.com: {hits: 1, window: 0}}", "a.com: window is 0, not a number of seconds"),
        ("domains: {a.com: {hits: 1, window: -5}}", "a.com: window is -5"),
        ("domains: {a.com: {hits: 1, window: .inf}}", "a.com: window is inf"),
        ("domains: {a.com: {hits: 1, window: .nan}}", "a.com: window is nan"),
        ("domains: {a.com: {hits: 1, window: 1, scale: 1.1}}", "scale is 1.1, not a number from"),
        ("domains: {a.com: {hits: 1, window: 1, scale: -0.1}}", "a.com: scale is -0.1"),
        ("domains: {a.com: {hits: 1, window: 1, scale: }}", "a.com: scale is nothing"),
        ("domains: {a.com: {hits: 1, window: 1, moderated: 1}}", "moderated is 1, not true or"),
        ("domains: {a.com: {hits: 1, window: 1, concurrency: 0}}", "a.com: concurrency is 0"),
        ("default: null", "default is nothing, not a mapping"),
        ("default: {hits: 1, window: x}", "default: window is 'x'"),
        ("blacklist: null", "blacklist is nothing, not a list"),
        ("blacklist: a.com", "blacklist is 'a.com', not a list"),
        ("blacklist: [a.com, 5]", "blacklist: 5 is not the name of a domain"),
        ("a: &a [*a]", r"refers to itself by \*a"),
    ],
)
def test_what_is_wrong_is_named(text: str | bytes, sentence: str) -> None:
    """Every doubtful document is refused as a whole, with the domain and the field."""
    with pytest.raises(BadTable, match=sentence):
        parse(text)


def aliases_of_aliases() -> bytes:
    """A short document that stands for nine to the fifteenth values."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for n in range(ord("b"), ord("p")):
        name, before = chr(n), chr(n - 1)
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (aliases_of_aliases(), "unfolds to more than"),
        (b"[" * 100_000, "nests deeper than"),
        (b"{a: " * 100_000, "nests deeper than"),
        (b"- " * 100_000, "nests deeper than"),
        (b"x" * (MAX_BYTES + 1), "more than the"),
        (b"domains: {a.com: {hits: " + b"9" * 100_000 + b", window: 1}}", "not YAML"),
    ],
)
def test_hostile_documents_are_refused_quickly(data: bytes, sentence: str) -> None:
    """Texts that aim at memory, time or the stack of the process cost next to nothing."""
    since = time.process_time()
    with pytest.raises(BadTable, match=sentence):
        parse(data)
    assert time.process_time() - since < 1


def test_rules_that_outgrow_the_node_are_refused() -> None:
    """ZooKeeper would only close the connection."""
    with pytest.raises(BadTable, match=f"more than the {MAX_BYTES} a node can hold"):
        write_document({"domains": {}, "note": "x" * MAX_BYTES})


@pytest.mark.parametrize(
    ("spelt", "folded"),
    [
        ("Example.COM", "example.com"),
        ("127.0.0.1.", "127.0.0.1"),
        (" a.com ", "a.com"),
        ("[::1]", "::1"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example.", "xn--bcher-kva.example"),
        ("no domain ü", "no domain ü"),
    ],
)
def test_domains_have_one_spelling(spelt: str, folded: str) -> None:
    """Case, the trailing dot and the script do not make another domain."""
    assert fold_host(spelt) == folded
