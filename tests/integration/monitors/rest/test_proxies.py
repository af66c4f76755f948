"""Pools of proxies over REST and on the screen: how they do, and bans by a person."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from crawlstream.egress.edit import PoolEditor
from crawlstream.model.effects import Loss
from crawlstream.model.egress.pools import PoolTable
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.proxy_reports import PoolSpend, ProxyOutcome, ProxyReport
from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest

URLS = ["http://u:CANARY@10.0.0.1:1", "http://10.0.0.2:2"]


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service."""
    with running_rest(cluster, tmp_path_factory.mktemp("rest")) as service:
        yield service


@pytest.fixture
def editor(cluster: MonitorCluster) -> PoolEditor:
    """Edits the node of this cluster."""
    settings = cluster.settings()
    return PoolEditor(settings.zookeeper_hosts, settings.proxies_path)


@pytest.fixture
async def table(editor: PoolEditor, frontier: Frontier) -> PoolTable:
    """A pool whose second proxy is out."""
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    await editor.set_pool(
        "de",
        [{"url": url} for url in URLS],
        policy={"budget": {"requests": 10}, "price": {"per_gb": 4}},
    )
    table = await editor.use("shop.com", "de")
    await frontier.pools.copy(table, adopt=True)
    _, second = table.pools["de"].proxies
    outcomes = {second.id: ProxyOutcome(failed=1, in_row=1, is_sure=True)}
    report = ProxyReport(outcomes=outcomes, spends={"de": PoolSpend(4, 10**9)})
    await frontier.book.session("w1").exchange(report, is_user=True)
    return table


async def told(rest: RestProcess, path: str) -> Any:
    """The data of an answer."""
    answer = await rest.get(path)
    assert b"CANARY" not in answer.body
    return answer.data


async def test_pools_are_told_banned_and_unbanned(
    rest: RestProcess, table: PoolTable, editor: PoolEditor, frontier: Frontier
) -> None:
    """Lists pools without passwords; Redis keeps a ban with an end, ZooKeeper one without."""
    first, second = table.pools["de"].proxies
    (pool,) = (one for one in (await told(rest, "/v2/proxies"))["pools"] if one["pool"] == "de")
    assert (pool["states"]["ok"], pool["states"]["out"]) == (1, 1)
    assert (pool["budget_left"], pool["cost_today"]) == (0.6, 4.0)
    proxies = (await told(rest, "/v2/proxies/de"))["proxies"]
    assert [one["state"] for one in proxies] == ["ok", "out"]
    rows = (await told(rest, "/v2/proxies/why?site=shop.com"))["proxies"]
    assert {row["id"]: row["why"] for row in rows}[first.id] == ""
    assert await told(rest, "/v2/proxies/why?site=other.com") == {"pool": None, "proxies": []}
    wish: dict[str, object] = {"id": first.id, "site": "www.shop.com", "for_s": 60}
    assert (await rest.post("/v2/proxies/ban", wish)).data == {"banned": first.id}
    (ban,) = [one for one in await frontier.book.rests() if one.kind == "b"]
    assert (ban.proxy, ban.site) == (first.id, "shop.com")
    assert (await rest.post("/v2/proxies/ban", {"id": second.id})).data
    assert (await editor.read()).pools["de"].proxies[1].disabled
    assert (await rest.post("/v2/proxies/unban", {"id": second.id})).data
    assert not (await editor.read()).pools["de"].proxies[1].disabled


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        ({"id": "p-0"}, 404, "unknown_proxy"),
        ({"id": "p-0", "for_s": 0}, 422, "invalid"),
        ({"site": "x"}, 422, "invalid"),
        ({"id": "p-0", "until": 1}, 422, "invalid"),
    ],
)
async def test_a_ban_that_means_nothing_is_refused(
    rest: RestProcess, wish: dict[str, object], status: int, code: str
) -> None:
    """Refuses a meaningless ban and names its fault."""
    answer = await rest.post("/v2/proxies/ban", wish)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert (await rest.get("/v2/proxies/nowhere")).error["code"] == "unknown_pool"


async def test_the_screen_shows_them_and_bans_by_a_form(
    rest: RestProcess, table: PoolTable, frontier: Frontier
) -> None:
    """Passwords are dots there, too."""
    first, _ = table.pools["de"].proxies
    screen = await rest.get("/ui/proxies", Accept="text/html")
    assert screen.status == 200
    text = unescape(screen.body.decode())
    assert first.id in text
    assert "CANARY" not in text
    assert f"Ban {first.id} for an hour?" in text
    form = urlencode({"id": first.id, "for_s": "3600"}).encode()
    own = {"Origin": f"http://127.0.0.1:{rest.port}", "Accept": "text/html"}
    kind = "application/x-www-form-urlencoded"
    answer = await rest.post("/ui/do/v2/proxies/ban", form, Content_Type=kind, **own)
    assert (answer.status, answer.headers["location"]) == (303, "/ui/proxies?outcome=ban")
    bans = [one for one in await frontier.book.rests() if one.kind == "b" and one.site == "*"]
    assert [one.proxy for one in bans] == [first.id]
