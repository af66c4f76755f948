"""Proxies that fail: who is to blame, what becomes of the page; and it never leaves past them."""

from __future__ import annotations

import pytest

from crawling.egress.routes import NoProxy
from crawling.failures import PathFailed
from crawling.page.page import Phase
from crawlstream.model.url import host_of
from crawlstream_chaos.scripted_site import Answer, CrawlerSite
from support.crawler.proxied import Bench
from support.crawler.proxies import dead_port, pools, small_proxy
from support.crawler.visitor import Visitor

FAULTS: dict[tuple[str, int | str], str] = {
    ("http", "close"): "proxy",
    ("http", "noise"): "proxy",
    ("http", 400): "proxy",
    ("http", 401): "proxy",
    ("http", 403): "proxy",
    ("http", 405): "proxy",
    ("http", 407): "proxy",
    ("http", 501): "proxy",
    ("socks5", "close"): "proxy",
    ("socks5", "noise"): "proxy",
    ("socks5", 2): "proxy",
    ("socks5", 7): "proxy",
    ("socks5", 8): "proxy",
    ("http", 404): "path",
    ("http", 502): "path",
    ("http", 503): "path",
    ("http", "mute"): "path",
    ("http", "late"): "path",
    ("socks5", 1): "path",
    ("socks5", 3): "path",
    ("socks5", 4): "path",
    ("socks5", 5): "path",
    ("socks5", 6): "path",
    ("socks5", "mute"): "path",
    ("socks5", "late"): "path",
}


@pytest.mark.parametrize(("fault", "blamed"), FAULTS.items())
async def test_a_proxy_that_fails_costs_no_attempt_where_the_fault_is_surely_its_own(
    bench: Bench, site: CrawlerSite, fault: tuple[str, int | str], blamed: str
) -> None:
    """Another is tried under the same grant; else one attempt is used, and of the site not told."""
    scheme, mood = fault
    with (
        small_proxy(mood) as bad,
        small_proxy() as good,
        bench.visiting(timeout_s=1) as visitor,
    ):
        await bench.set(
            f"pools: {{de: {{proxies: ['{scheme}://{bad.url}'], fallback: [good]}},"
            f" good: {{proxies: ['http://{good.url}']}}}}"
        )
        if blamed == "proxy":
            assert (await visitor.fetch(site.url("/"), proxy="de")).status == 200
            assert good.asked == [f"127.0.0.1:{site.port}"]
        else:
            with pytest.raises(PathFailed) as failed:
                await visitor.fetch(site.url("/"), proxy="de")
            assert (failed.value.reason, failed.value.is_silent) == ("proxy", False)
            assert good.asked == []
    assert len(site.visits) == (blamed == "proxy")


async def test_a_wrong_password_puts_a_proxy_out_at_once(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """It is not asked again for the next page; SOCKS as well."""
    with (
        small_proxy(user="u", password="right") as http,
        small_proxy(user="u", password="right") as socks,
        small_proxy() as good,
    ):
        urls = (f"http://u:wrong@{http.url}", f"socks5://u:wrong@{socks.url}", f"http://{good.url}")
        await bench.of(*urls)
        for _ in range(12):
            assert (await visitor.fetch(site.url("/"), proxy="de")).status == 200
    assert (len(http.users), len(socks.users)) <= (1, 1)
    assert len(site.visits) == 12


async def test_three_proxies_are_tried_at_most_and_then_the_page_waits(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """It is given back unmarked, for a second; nothing has reached the site."""
    await bench.of(*(f"http://127.0.0.1:{dead_port()}" for _ in range(4)))
    with pytest.raises(NoProxy) as waits:
        await visitor.fetch(site.url("/"), proxy="de")
    assert waits.value.delay_ms == 1000
    assert visitor.latest
    assert visitor.latest.phase is Phase.CONNECTING
    assert site.visits == []


CLOSED = {
    "no table": "",
    "no such pool": "pools: {fr: {}}",
    "empty": "pools: {de: {}}",
    "disabled": "pools: {de: {disabled: true, proxies: ['http://127.0.0.1:1']}}",
    "all disabled": "pools: {de: {proxies: [{url: 'http://127.0.0.1:1', disabled: true}]}}",
    "dead": "pools: {de: {proxies: ['http://127.0.0.1:1']}}",
    "a variable is missing": "pools: {de: {proxies: ['http://u:${NONE}@127.0.0.1:1']}}",
    "metadata": "pools: {de: {proxies: ['http://169.254.169.254:80']}}",
    "unknown name": "pools: {de: {proxies: ['http://proxy.invalid:80']}}",
}


@pytest.mark.parametrize("table", CLOSED.values(), ids=CLOSED.keys())
async def test_a_page_of_a_pool_never_leaves_past_it(
    bench: Bench, visitor: Visitor, site: CrawlerSite, table: str
) -> None:
    """Lets pages wait while their pool is faulty, even all pages; none leaves directly."""
    if table:
        await bench.set(table)
    with pytest.raises(NoProxy):
        await visitor.fetch(site.url("/"), proxy="de")
    if "de" in table:
        await bench.set(f"default: de\n{table}")
        with pytest.raises(NoProxy):
            await visitor.fetch(site.url("/"))
        await bench.set(f"domains: {{127.0.0.1: de}}\n{table}")
        with pytest.raises(NoProxy):
            await visitor.fetch(site.url("/"))
    assert site.visits == []
    assert (await visitor.fetch(site.url("/"), proxy="direct")).status == 200


async def test_pools_that_a_new_process_does_not_know_yet_are_asked_for_first(
    bench: Bench, site: CrawlerSite
) -> None:
    """A worker whose first grant is as old as the table does not send it directly."""
    assert await bench.pools.copy(pools("default: de\npools: {de: {}}"))
    with bench.visiting() as visitor, pytest.raises(NoProxy):
        await visitor.fetch(site.url("/"))
    assert site.visits == []


async def test_a_refusal_is_the_answer_and_its_proxy_rests_for_the_site(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """Requests nothing again elsewhere after a refusal; the site's next page has another proxy."""
    site.pages |= {"/no": Answer(status=403), "/later": Answer(status=429)}
    with small_proxy() as one, small_proxy() as two:
        await bench.of(f"http://{one.url}", f"http://{two.url}")
        assert (await visitor.fetch(site.url("/no"), proxy="de")).status == 403
        assert len(one.asked + two.asked) == len(site.visits) == 1
        for _ in range(6):
            assert (await visitor.fetch(site.url("/"), proxy="de")).status == 200
        assert sorted(map(len, (one.asked, two.asked))) == [1, 1]
        assert (await visitor.fetch(site.url("/later"), proxy="de")).status == 429
        with pytest.raises(NoProxy) as waits:
            await visitor.fetch(site.url("/"), proxy="de")
        assert waits.value.delay_ms == 30_000
        assert (await visitor.fetch(site.url("/", host="127.0.0.2"), proxy="de")).status == 200


async def test_a_site_is_silent_once_proxies_that_work_elsewhere_find_no_way_to_it(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """A single one says nothing of the site, three do; proxies that never worked do not count."""
    dead, port = "127.0.0.3", dead_port()
    with small_proxy() as one, small_proxy() as two, small_proxy() as three:
        await bench.of(*(f"http://{each.url}" for each in (one, two, three)))

        async def heard() -> list[bool]:
            said = []
            for _ in range(3):
                with pytest.raises(PathFailed) as failed:
                    await visitor.fetch(f"http://{dead}:{port}/", proxy="de")
                said.append(failed.value.is_silent)
            return said

        assert await heard() == [False] * 3
        dead = "127.0.0.4"
        while not all(len(each.asked) > 1 for each in (one, two, three)):
            await visitor.fetch(site.url("/", host="127.0.0.2"), proxy="de")
            await visitor.fetch(site.url("/", host="127.0.0.5"), proxy="de")
        assert await heard() == [False, False, True]


async def test_no_error_names_user_password_or_address_of_a_proxy(
    bench: Bench,
    site: CrawlerSite,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names no user, password or address of a proxy, neither in failures nor in logs."""
    moods: tuple[int | str, ...] = (403, 407, 502, "close", "noise", "mute", "late")
    for mood in moods:
        for scheme in ("http", "socks5", "https"):
            with small_proxy(mood) as bad, bench.visiting(timeout_s=0.5) as visitor:
                await bench.of(f"{scheme}://CANARY-U:CANARY-P@{bad.url}")
                with pytest.raises(Exception, match=r".") as failed:
                    await visitor.fetch(site.url("/"), proxy="de")
                told = f"{failed.value!r} {failed.value} {failed.value.__cause__!r}"
                assert "CANARY" not in told
                assert str(bad.port) not in told
    said = capsys.readouterr()
    assert "CANARY" not in said.out + said.err + caplog.text
    assert "pool" in said.out


async def test_pages_wait_for_a_proxy_as_long_as_for_anything_else_and_end_by_name(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """An answer in between restarts it; so does a Redis that has forgotten."""
    with small_proxy(403) as proxy:
        await bench.of(f"http://{proxy.url}", policy="rest: 0")

        async def outcome() -> int | str:
            try:
                return await visitor.outcome(site.url("/"), proxy="de")
            finally:
                await bench.routes.patience.drop_served()

        async def wait_longer(seconds: float) -> None:
            await bench.wait_longer("de", host_of(site.url("/")), seconds)

        assert await outcome() == "download_error"
        await wait_longer(3000)
        proxy.mood = ""
        assert await outcome() == 200
        proxy.mood = 403
        proxy.drop()
        assert await outcome() in {"download_error", "connection_lost"}
        assert await outcome() == "download_error"
        await wait_longer(3590)
        assert await outcome() == "download_error"
        await wait_longer(11)
        assert await outcome() == "no_proxy"
