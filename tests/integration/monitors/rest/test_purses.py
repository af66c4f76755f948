"""Purses over REST: limits, sums by day, and what an operator decides about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crawlstream.model.effects import Loss
from crawlstream.model.words.price import Price
from crawlstream_frontier.egress.purses import OK, Buyer
from crawlstream_frontier.frontier import Frontier
from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest

CENT = 10_000
LIMITS: dict[str, object] = {
    "currency": "USD", "day": "5", "total": "100.5", "apps": ["shop"],
    "domains": ["www.Example.com"],
}  # fmt: skip
SHOP = "https://www.example.com:443"


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service."""
    with running_rest(cluster, tmp_path_factory.mktemp("rest")) as service:
        yield service


@pytest.fixture(autouse=True)
async def _restored(frontier: Frontier) -> None:
    """A frontier that waits for its first record."""
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))


async def _screen(rest: RestProcess) -> str:
    """The dashboard's list of purses."""
    return (await rest.get("/ui/purses", Accept="text/html")).body.decode()


async def test_a_purse_is_set_spent_forgiven_and_removed(
    rest: RestProcess, frontier: Frontier
) -> None:
    """Amounts are texts; a report has the sums by day, and the pages whose payment is open."""
    assert (await rest.get("/v2/purses")).data == []
    made = (await rest.call("PUT", "/v2/purses/news", LIMITS)).data
    assert (made["day"], made["total"], made["max_price"]) == ("USD 5.00", "USD 100.50", None)
    assert (made["apps"], made["domains"]) == (["shop"], ["example.com"])
    assert (await rest.get("/v2/purses")).data == [made]
    buyer = Buyer("news", SHOP, "example.com", "shop", None)
    assert await frontier.purses.quote(buyer, Price("USD", CENT)) == OK
    for sending in ("page-1 w 1", "page-2 w 2"):
        _, price = await frontier.purses.reserve(buyer, sending)
    assert price
    await frontier.purses.settle("news", SHOP, "page-1 w 1", price=price, charged=2 * CENT)
    told = (await rest.get("/v2/purses/news?days=2")).data
    assert list(told["days"].values()) == [told["spent"]] == ["USD 0.03"] == [told["spent_today"]]
    assert (told["charged"], told["overcharged"], told["under_way"]) == ("USD 0.02", "USD 0.01", 1)
    assert told["origins"] == [{"origin": SHOP, "charged": "USD 0.02"}]
    ((page, cost),) = [(each["id"], each["price"]) for each in told["reservations"]]
    assert (page, cost, told["distrusted"]) == ("page-2", "USD 0.01", [SHOP])
    assert "1 sites not paid" in await _screen(rest)
    forgiving = "/v2/purses/news/forgive", {"origin": "https://www.example.com/any"}
    assert (await rest.post(*forgiving)).data["purse"] == "news"
    assert (await rest.get("/v2/purses/news")).data["distrusted"] == []
    assert (await rest.post(*forgiving)).error["code"] == "unknown_origin"
    assert not (await rest.post("/v2/purses/news/adopt")).data["closed"]
    screen = await _screen(rest)
    assert "news" in screen
    assert "USD 0.03" in screen
    assert ("pays" in screen, "overcharged" in screen) == (True, False)
    own = {"Origin": f"http://127.0.0.1:{rest.port}", "Accept": "text/html"}
    kind = "application/x-www-form-urlencoded"
    form = "/ui/do/v2/purses/news/adopt"
    answer = await rest.post(form, b"sure=1", Content_Type=kind, **own)
    assert (answer.status, answer.headers["location"]) == (303, "/ui/purses?outcome=adopt")
    assert (await rest.call("DELETE", "/v2/purses/news")).data == {"removed": "news"}
    assert (await rest.get("/v2/purses")).data == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "news", {"currency": "usd", "day": "1"}, 422, "invalid"),
        ("PUT", "news", {"currency": "USD", "day": "1e3"}, 422, "invalid"),
        ("PUT", "news", {"currency": "USD", "day": 1}, 422, "invalid"),
        ("PUT", "news", {"currency": "USD", "day": "1", "limit": "2"}, 422, "invalid"),
        ("PUT", "news", {"currency": "USD", "day": "1", "domains": ["a b"]}, 422, "invalid"),
        ("DELETE", "nobody", None, 404, "unknown_purse"),
        ("GET", "nobody", None, 404, "unknown_purse"),
        ("POST", "nobody/adopt", None, 404, "unknown_purse"),
        ("POST", "nobody/forgive", {"origin": "a.example"}, 404, "unknown_purse"),
        ("POST", "nobody/forgive", {"origin": "a b"}, 422, "invalid"),
    ],
)
async def test_what_means_nothing_is_refused(
    rest: RestProcess, *, method: str, path: str, body: Any, status: int, code: str
) -> None:
    """Refuses meaningless values, names the fault, and changes nothing."""
    answer = await rest.call(method, f"/v2/purses/{path}", body)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert (await rest.get("/v2/purses")).data == []
