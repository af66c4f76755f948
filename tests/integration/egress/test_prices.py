"""Pages that cost something: results like others, and an event for each origin."""

from __future__ import annotations

from crawlstream.model.statuses import RETRIED
from crawlstream.wire.delivered import decode
from crawlstream.wire.jsontext import dumps
from crawlstream_chaos.scripted_site import Answer, Page, page, serving
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]


def _priced(status: int = 402, **headers: str) -> Answer:
    sent = {f"crawler-{name}": value for name, value in headers.items()}
    return Answer(b"pay", status=status, headers={"Retry-After": "0", **sent})


async def test_a_page_with_a_price_is_a_result_and_never_retried(cluster: CrawlerCluster) -> None:
    """Delivers a page with a price, exact or not, as a result, and reports its origin once."""
    pages: dict[str, Page] = {
        "/first": _priced(price="USD 0.01"),
        "/second": _priced(price="EUR 2.5", error="PaymentFailed"),
        "/odd": _priced(price="USD 1e3", error="not a code"),
        "/bare": _priced(),
        "/charged": _priced(200, charged="USD 0.01"),
        "/free": page(),
    }
    with serving(pages) as site:
        elsewhere = site.url("/first").replace("127.0.0.1", "127.0.0.2")
        with cluster.worker(RETRY_TIMES="2") as worker:
            first = await cluster.ask({"url": site.url("/first"), "priority": 9})
            await cluster.end_of(first, timeout_s=30)
            urls = [site.url(path) for path in pages if path != "/first"]
            crawl = await cluster.ask(*({"url": url} for url in [*urls, elsewhere]))
            state = await cluster.end_of(crawl, timeout_s=30)
            logged = [e for e in worker.events() if e["event"] == "payment_required"]
        assert len(site.visits) == len(pages) + 1
    assert 402 not in RETRIED
    assert (state.done, state.failed) == (7, 0)
    results = {r["url"]: r for r in cluster.results()}
    found = {path: results[site.url(path)].get("payment") for path in pages}
    nothing = dict.fromkeys(("price", "charged", "error", "purse"))
    assert found == {
        "/first": {**nothing, "price": "USD 0.01"},
        "/second": {**nothing, "price": "EUR 2.50", "error": "PaymentFailed"},
        "/odd": nothing,
        "/bare": nothing,
        "/charged": {**nothing, "charged": "USD 0.01"},
        "/free": None,
    }
    assert decode(dumps(results[site.url("/first")])).payment == found["/first"]
    events = [e for e in cluster.records(cluster.topics.events) if e["event"] == "payment_required"]
    assert [(e["url"], e["price"]) for e in events] == [
        (site.url("/first"), "USD 0.01"),
        (elsewhere, "USD 0.01"),
    ]
    origin = site.url("/").removesuffix("/")
    assert events[0]["origin"] == origin
    assert len({e["id"] for e in events}) == len(logged) == 2
