"""Editing the rules in a real ZooKeeper: no edit is lost, nothing foreign is touched."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator

import pytest
import yaml
from kazoo.client import KazooClient

from crawlstream.errors import BadTable, Conflict, ZooKeeperUnavailable
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.zoo import node as node_module
from crawlstream.zoo.document import MAX_BYTES, Document
from crawlstream_chaos.processes import RunningServer
from support.session.own import own_zookeeper_server

__all__ = ["own_zookeeper_server"]

DEFAULT = ThrottleRule(hits=10, window_s=60)
QUICK_S = 5.0
"""Time until the error that ZooKeeper is unavailable."""


class Node:
    """The node as any other tool sees it."""

    def __init__(self, client: KazooClient, path: str) -> None:
        self._client = client
        self.path = path

    @property
    def text(self) -> str:
        """The bytes, as text."""
        return str(self._client.get(self.path)[0].decode())

    @property
    def content(self) -> Document:
        """The YAML, read."""
        content: Document = yaml.safe_load(self.text)
        return content

    @property
    def version(self) -> int:
        """How often it was written."""
        return int(self._client.get(self.path)[1].version)

    def write(self, text: str) -> None:
        """Write it, over whatever is there."""
        self._client.ensure_path(self.path)
        self._client.set(self.path, text.encode())

    def delete(self) -> None:
        """Remove it."""
        self._client.delete(self.path)


@pytest.fixture
def hosts(zookeeper_server: RunningServer) -> list[str]:
    """Where ZooKeeper is."""
    return [f"127.0.0.1:{zookeeper_server.port}"]


@pytest.fixture
def node(hosts: list[str], fresh_name: str) -> Iterator[Node]:
    """A node of this test's own, which does not exist yet."""
    client = KazooClient(hosts=hosts[0])
    client.start()
    yield Node(client, f"/{fresh_name}/crawler/all")
    client.stop()
    client.close()


@pytest.fixture
def editor(hosts: list[str], node: Node) -> ThrottleEditor:
    """An editor of that node."""
    return ThrottleEditor(hosts, node.path, default=DEFAULT)


async def test_seeding_makes_the_node_and_its_default_once(
    editor: ThrottleEditor, node: Node
) -> None:
    """The default of the settings is written where there is none, and never again."""
    table = await editor.seed()
    assert node.content == {
        "default": DEFAULT.named(),
        "domains": {},
        "blacklist": [],
    }
    assert table == await editor.read()
    await editor.set_rule("default", hits=3)
    version = node.version
    assert (await editor.seed()).default.hits == 3
    assert node.version == version


async def test_seeding_a_node_of_the_predecessor_keeps_its_rules(
    editor: ThrottleEditor, node: Node
) -> None:
    """The default comes first, the rest stays as it was."""
    node.write("blacklist: [a.com]\ndomains: {b.org: {window: 60, hits: 30, scale: 0.5}}\n")
    table = await editor.seed()
    assert list(node.content) == ["default", "blacklist", "domains"]
    assert table.rules == {"b.org": ThrottleRule(hits=30, window_s=60, scale=0.5)}
    assert table.blacklist == {"a.com"}


async def test_a_rule_is_set_changed_and_removed(editor: ThrottleEditor) -> None:
    """Options left out stay; a new rule starts from the default's hits and window."""
    table = await editor.set_rule("A.com.", hits=5, window=0.5, moderated=False)
    assert table.rules == {"a.com": ThrottleRule(hits=5, window_s=0.5, moderated=False)}
    table = await editor.set_rule("a.com", scale=0.5, concurrency=2)
    assert table.rules == {
        "a.com": ThrottleRule(hits=5, window_s=0.5, scale=0.5, moderated=False, concurrency=2)
    }
    table = await editor.set_rule("b.com", scale=0.1)
    assert table.rules["b.com"] == ThrottleRule(hits=10, window_s=60, scale=0.1)
    table = await editor.remove_rule("a.COM")
    assert set(table.rules) == {"b.com"}


async def test_a_node_without_a_default_stays_without(editor: ThrottleEditor, node: Node) -> None:
    """Writes the default only when seeding; a new rule borrows from the settings'."""
    node.write("blacklist: []")
    table = await editor.set_rule("a.com", scale=0.5)
    assert table.rules == {"a.com": ThrottleRule(hits=10, window_s=60, scale=0.5)}
    assert "default" not in node.content


async def test_domains_are_blocked_and_unblocked(editor: ThrottleEditor) -> None:
    """Blocking twice is blocking once; any spelling unblocks."""
    await editor.block("a.com")
    table = await editor.block("A.com.")
    assert table.blacklist == {"a.com"}
    table = await editor.unblock("A.COM")
    assert table.blacklist == frozenset()


async def test_an_edit_keeps_what_it_does_not_know(editor: ThrottleEditor, node: Node) -> None:
    """Foreign keys, the order and other spellings survive; numbers stay whole."""
    node.write(
        "owner: {team: [x, y]}\n"
        "domains:\n"
        "  Zeta.com.: {window: 60, hits: 1, note: slow down}\n"
        "  alpha.com: {window: 1, hits: 2}\n"
        "blacklist: []\n"
    )
    await editor.set_rule("zeta.com", hits=7, window=30.0)
    assert node.content == {
        "owner": {"team": ["x", "y"]},
        "domains": {
            "Zeta.com.": {"window": 30, "hits": 7, "note": "slow down"},
            "alpha.com": {"window": 1, "hits": 2},
        },
        "blacklist": [],
    }
    assert list(node.content) == ["owner", "domains", "blacklist"]
    assert "window: 30\n" in node.text


async def test_rules_shared_by_an_alias_are_told_apart(editor: ThrottleEditor, node: Node) -> None:
    """Changing one of two domains that share a rule leaves the other as it was."""
    node.write("domains: {a.com: &r {hits: 1, window: 2}, b.com: *r}")
    table = await editor.set_rule("a.com", hits=9)
    assert (table.rules["a.com"].hits, table.rules["b.com"].hits) == (9, 1)


async def test_editors_at_once_lose_no_edit(hosts: list[str], node: Node) -> None:
    """Twelve editors write at the same moment; every rule is there afterwards."""
    editors = [ThrottleEditor(hosts, node.path, default=DEFAULT) for _ in range(12)]
    await asyncio.gather(
        *(each.set_rule(f"d{n}.com", hits=n, window=1) for n, each in enumerate(editors))
    )
    rules = (await editors[0].read()).rules
    assert {name: rule.hits for name, rule in rules.items()} == {f"d{n}.com": n for n in range(12)}


async def test_endless_meddling_is_a_conflict(
    node: Node, editor: ThrottleEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit that always comes second gives up and says so."""
    monkeypatch.setattr(node_module, "MAX_TRIES", 3)
    node.write("domains: {}")

    def meddle(document: Document) -> None:
        node.write("domains: {}")
        document["mine"] = True

    with pytest.raises(Conflict):
        await editor._change(meddle)
    assert "mine" not in node.content


async def test_an_edit_that_changes_nothing_writes_nothing(
    editor: ThrottleEditor, node: Node
) -> None:
    """No watcher is woken for it."""
    await editor.set_rule("a.com", hits=5, window=1)
    version = node.version
    await editor.set_rule("a.com", hits=5)
    await editor.unblock("b.com")
    await editor.remove_rule("c.com")
    assert node.version == version


async def test_a_broken_or_emptied_node_is_never_overwritten(
    editor: ThrottleEditor, node: Node
) -> None:
    """Its rules may still be saved by hand; an edit would bury them and raise the limits."""
    node.write("domains: {a.com: {hits: 1")
    for edit in (
        editor.seed(),
        editor.set_rule("b.com", hits=1, window=1),
        editor.block("b.com"),
    ):
        with pytest.raises(BadTable, match="not YAML"):
            await edit
    assert node.text == "domains: {a.com: {hits: 1"
    node.write("")
    with pytest.raises(BadTable, match="empty"):
        await editor.seed()
    assert not node.text


async def test_an_edit_can_repair_a_bad_rule(editor: ThrottleEditor, node: Node) -> None:
    """A rule that makes the whole table bad is set right, or removed, like any other."""
    node.write("domains: {a.com: {hits: -1, window: 1}, b.com: nonsense}")
    with pytest.raises(BadTable, match=r"b\.com"):
        await editor.set_rule("a.com", hits=1)
    node.write("domains: {a.com: {hits: -1, window: 1}}")
    assert (await editor.set_rule("a.com", hits=1)).rules["a.com"].hits == 1
    node.write("domains: {b.com: nonsense}")
    assert (await editor.remove_rule("b.com")).rules == {}


async def test_values_that_are_no_rule_are_refused(editor: ThrottleEditor, node: Node) -> None:
    """The node stays as it is, and the sentence names the field."""
    await editor.seed()
    version = node.version
    for bad, field in (
        (editor.set_rule("a.com", hits=-1, window=1), "hits"),
        (editor.set_rule("a.com", hits=1, window=0), "window"),
        (editor.set_rule("a.com", hits=1, window=1, scale=2), "scale"),
        (editor.set_rule("default", hits=1, window=1, concurrency=0), "concurrency"),
        (editor.set_rule(" ", hits=1, window=1), "name of a domain"),
        (editor.remove_rule("default"), "default"),
    ):
        with pytest.raises(BadTable, match=field):
            await bad
    assert node.version == version


async def test_rules_beyond_a_megabyte_are_refused(editor: ThrottleEditor, node: Node) -> None:
    """ZooKeeper would cut the connection; the editor says what is the matter."""
    note = "x" * (MAX_BYTES - 40)
    node.write(f"note: {note}\ndomains: {{}}\n")
    with pytest.raises(BadTable, match="a node can hold"):
        await editor.set_rule("a-rather-long-domain-name.com", hits=1, window=1)


async def test_a_missing_node_is_told(editor: ThrottleEditor, node: Node) -> None:
    """Reading before anything was written is answered in a sentence."""
    with pytest.raises(BadTable, match=f"no node {node.path}"):
        await editor.read()


async def test_a_zookeeper_that_is_away_is_told_quickly(node: Node) -> None:
    """An error says within five seconds that it is down."""
    editor = ThrottleEditor(["127.0.0.1:1"], node.path, default=DEFAULT)
    since = time.monotonic()
    with pytest.raises(ZooKeeperUnavailable):
        await editor.read()
    assert time.monotonic() - since < QUICK_S


async def test_our_own_work_is_no_silence_of_zookeepers(
    editor: ThrottleEditor, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of rules take us longer to read and to write than ZooKeeper may take to answer."""
    table = "".join(f"  d{n}.com: {{hits: 1, window: 1}}\n" for n in range(3_000))
    node.write(f"domains:\n{table}")
    monkeypatch.setattr(node_module, "DEADLINE_S", 0.2)
    await editor.set_rule("example.org", hits=3, window=1)
    assert node.content["domains"]["example.org"] == {"hits": 3, "window": 1}


async def test_a_frozen_zookeeper_is_told_quickly(
    editor: ThrottleEditor, zookeeper_server: RunningServer
) -> None:
    """A server that accepts connections and sends nothing gives the same error."""
    zookeeper_server.signal(signal.SIGSTOP)
    since = time.monotonic()
    try:
        with pytest.raises(ZooKeeperUnavailable):
            await editor.seed()
        assert time.monotonic() - since < QUICK_S
    finally:
        zookeeper_server.signal(signal.SIGCONT)
