"""Editing the pools in a real ZooKeeper, by the commands that people use."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlstream.boot.settings import load_settings
from crawlstream.egress.edit import PoolEditor
from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from support.crawler.pools_node import Node
from support.crawler.proxies import dead_port, small_proxy

pytestmark = pytest.mark.usefixtures("node")


def test_a_pool_is_made_changed_used_and_removed(say: Any, node: Node) -> None:
    """Options left out stay; used pools are not removed; passwords are not shown."""
    shown = say(
        "set", "de", "http://u:CANARY@gw.test:80", "socks5://10.0.0.1:1080", "--spread", "2"
    )
    assert "CANARY" not in shown
    assert "http://u:•••@gw.test:80" in shown
    say("set", "de", "http://u:CANARY2@gw.test:80", "--rest", "9", "--label", "new")
    assert node.content["pools"]["de"] == {
        "proxies": [
            {"url": "http://u:CANARY2@gw.test:80", "labels": ["new"]},
            "socks5://10.0.0.1:1080",
        ],
        "spread": 2,
        "rest": 9.0,
    }
    say("set", "de", "--budget-requests", "9", "--price-per-gb", "4", "--concurrency", "3")
    say("set", "de", "--budget-gigabytes", "1.5", "--uses", "100")
    pool = node.content["pools"]["de"]
    assert pool["budget"] == {"requests": 9, "gigabytes": 1.5}
    assert (pool["price"], pool["concurrency"], pool["uses"]) == ({"per_gb": 4.0}, 3, 100)
    assert "requests 9, gigabytes 1.5" in say("show", "de")
    assert "shop.test" in say("use", "Shop.Test.", "de")
    say("use", "default", "de")
    refused = say("remove", "de", status=1)
    assert "still used by all domains without a pool of their own, domain shop.test" in refused
    say("use", "default", "direct")
    say("use", "shop.test", "direct")
    say("remove", "de")
    assert node.content["pools"] == {}
    assert "there is no pool 'de'" in say("show", "de", status=2)


def test_proxies_come_from_a_file_and_bad_lines_are_not_repeated(
    say: Any, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """URLs, price lists, comments, variables, sessions; - is standard input."""
    file = tmp_path / "proxies.txt"
    file.write_text("# mine\n\ngw.test:8000:u:p@ss\nhttps://${U}:${P}@gw.test:8443\n")
    say("set", "de", "--file", str(file))
    monkeypatch.setattr("sys.stdin", io.StringIO("http://u-{session}:p@gw.test:7777\n"))
    say("set", "de", "--file", "-", "--sessions", "50")
    lines = node.content["pools"]["de"]["proxies"]
    assert lines[:2] == ["http://u:p%40ss@gw.test:8000", "https://${U}:${P}@gw.test:8443"]
    assert lines[2] == {"url": "http://u-{session}:p@gw.test:7777", "sessions": 50}
    assert len(json.loads(say("show", "de", "--json"))["proxies"]) == 52
    before = node.content
    file.write_text("http://u:p@ok.test:1\nhttp://CANARY:CANARY@h te st:1\n")
    refused = say("set", "de", "--file", str(file), status=2)
    assert "line 2" in refused
    assert "CANARY" not in refused
    assert node.content == before


def test_what_is_disabled_stays_where_it_is(say: Any, node: Node) -> None:
    """A pool, or single proxies by their id; an id that there is not is named."""
    say("set", "de", "http://a.test:1", "http://b.test:2")
    first, second = (each["id"] for each in json.loads(say("show", "de", "--json"))["proxies"])
    assert say("disable", "de", second).count("disabled") == 2
    say("disable", "de")
    assert node.content["pools"]["de"] == {
        "proxies": ["http://a.test:1", {"url": "http://b.test:2", "disabled": True}],
        "disabled": True,
    }
    say("enable", "de")
    say("remove", "de", first)
    told = json.loads(say("show", "de", "--json"))
    assert (told["disabled"], [each["id"] for each in told["proxies"]]) == (False, [second])
    assert f"has no proxy {first}" in say("disable", "de", first, status=1)
    assert "there is no pool 'fr'" in say("disable", "fr", status=1)


def test_keys_that_are_not_ours_are_kept_and_a_broken_node_is_not_overwritten(
    say: Any, node: Node
) -> None:
    """Keeps unknown keys, and overwrites or repeats nothing of a broken node."""
    node.write("mine: 1\npools: {de: {note: x, proxies: [{url: 'http://a.test:1', note: y}]}}\n")
    say("set", "de", "http://a.test:1", "--spread", "3")
    assert node.content["mine"] == 1
    assert node.content["pools"]["de"]["note"] == "x"
    assert node.content["pools"]["de"]["proxies"] == [{"url": "http://a.test:1", "note": "y"}]
    node.write("pools: [CANARY")
    assert "CANARY" not in say("set", "de", "http://a.test:1", status=1)


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A page."""
    with serving({"/": page(text="hello")}) as site:
        yield site


def test_proxies_are_checked_by_the_client_that_crawls(
    say: Any, site: CrawlerSite, tmp_path: Path
) -> None:
    """Each has its own verdict: well, dead, unauthorised, without the text; one pass is enough."""
    with small_proxy() as well, small_proxy(user="u", password="p") as locked:
        dead = f"http://127.0.0.1:{dead_port()}"
        say("set", "de", f"http://{well.url}", dead, f"socks5://u:p@{locked.url}")
        say("set", "de", f"http://u:CANARY@{locked.url}")
        url = ("--url", site.url("/"))
        verdicts = json.loads(say("check", "de", *url, "--expect", "hello", "--json"))
        assert [each["ok"] for each in verdicts] == [True, False, True, False]
        assert [each["result"] for each in verdicts] == [
            "200",
            "proxy (libcurl 7)",
            "200",
            "password (CONNECT 407)",
        ]
        file = tmp_path / "proxies.txt"
        file.write_text(f"127.0.0.1:{well.port}\n")
        table = say("check", "--file", str(file), *url, "--expect", "bye", status=1)
        assert "200, without the expected text" in table
        assert "expected a pool or --file" in say("check", *url, status=2)
        file.write_text(f"127.0.0.1:{well.port}\n{dead}\n")
        added = say("check", "--file", str(file), *url, "--add", "well")
        assert "1 of 2 proxies were added to the pool well" in added
        (kept,) = json.loads(say("show", "well", "--json"))["proxies"]
        assert kept["url"] == f"http://127.0.0.1:{well.port}"
        assert "--add needs --file" in say("check", "de", *url, "--add", "well", status=2)
        file.write_text(f"{dead}\n")
        assert "0 of 1" in say("check", "--file", str(file), *url, "--add", "empty", status=1)
        assert '"empty"' not in say("list", "--json")
        asked = ("check", "de", "--url", "http://169.254.169.254/")
        assert "CRAWLSTREAM_ALLOW_NETWORKS" in say(*asked, status=1)
        inside = say(*asked, "--json", status=1)
    assert {each["result"] for each in json.loads(inside)} == {"address_refused"}
    assert len(site.visits) == 4


def test_edits_that_meet_are_both_there(node: Node) -> None:
    """Compare-and-set: the loser of a race reads and tries again."""
    settings = load_settings()

    async def meet() -> None:
        editors = [PoolEditor(settings.zookeeper_hosts, settings.proxies_path) for _ in range(8)]
        await asyncio.gather(
            *(editor.set_pool(f"p{n}", policy={"spread": 2}) for n, editor in enumerate(editors))
        )

    asyncio.run(meet())
    assert set(node.content["pools"]) == {f"p{n}" for n in range(8)}
