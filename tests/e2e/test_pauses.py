"""Pauses that end by themselves, as the site sees them: silence, then the whole crawl."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import urlencode

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve, ServedWeb
from e2e.test_dashboard import Screens
from support.browser import chromium
from support.waiting import WaitUntil

APP = "pauses"
_PAUSE_S = 12
"""Longer than a command takes on a busy machine."""
_UNDER_WAY_S = 2.0
"""How long requests may take that were granted before a pause, and the pause to be known."""
_EARLY_S = 1.1
"""The end of a pause is in whole seconds."""


def _between(served: ServedWeb, begin: float, end: float) -> list[str]:
    """Return the requests to the site between two moments (epoch seconds)."""
    return [visit.path for visit in served.visits() if begin <= visit.wall / 1000 < end]


async def _is_quiet_until(
    served: ServedWeb, until: float, wait_until: WaitUntil, *, paused_at: float
) -> None:
    """Nothing reaches the site before the end of a pause; then something does."""
    begin, end = paused_at + _UNDER_WAY_S, until - _EARLY_S
    assert begin < end
    await wait_until(lambda: _between(served, end, end + 60))
    assert _between(served, begin, end) == []


async def _begin(
    served: ServedWeb, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> dict[str, str]:
    """Start a crawl with five pages per second; its ids."""
    await cluster.throttle("set", served.web.hosts[0], "--hits", "5", "--window", "1")
    name = {"appid": APP, "spiderid": "link", "crawlid": f"pause-{served.web.port}"}
    witness.feed({"url": served.web.seed_url, "maxdepth": 9, **name})
    await wait_until(lambda: len(served.fetches()) >= 3, timeout_s=90)
    return name


async def test_a_crawl_that_is_paused_for_a_while_goes_on_by_itself(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """``pause --for`` says until when; nothing is lost, nothing is asked for twice."""
    async with serve(hosts=1, pages=40, slow_pages=0) as served:
        name = await _begin(served, cluster, witness, wait_until)
        asked_at = time.time()
        done = await cluster.run("pause", name["crawlid"], "--for", f"{_PAUSE_S}s", "--json")
        paused_at = time.time()
        assert done.status == 0, done.err
        until = json.loads(done.out)["until"]
        assert until - asked_at >= _PAUSE_S - 1
        await _is_quiet_until(served, until, wait_until, paused_at=paused_at)
        counters = (await witness.ended(name["crawlid"], timeout_s=90))["counters"]
        assert counters["failed"] == 0
        assert served.fetches() == served.truth(maxdepth=9).fetches


async def test_a_domain_that_is_paused_for_a_while_is_asked_again_by_itself(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """``throttle pause --for`` leaves its rule as it was; the crawl comes to its whole end."""
    async with serve(hosts=1, pages=40, slow_pages=0) as served:
        host = served.web.hosts[0]
        name = await _begin(served, cluster, witness, wait_until)
        done = await cluster.run("throttle", "pause", host, "--for", f"{_PAUSE_S}s", "--json")
        paused_at = time.time()
        assert done.status == 0, done.err
        rule = json.loads(done.out)["domains"][host]
        assert (rule["hits"], rule["window"]) == (5, 1)
        assert "paused until" in (await cluster.run("throttle", "get", host)).out
        await _is_quiet_until(served, rule["paused_until"], wait_until, paused_at=paused_at)
        assert (await witness.ended(name["crawlid"], timeout_s=90))["counters"]["failed"] == 0
        assert served.fetches() == served.truth(maxdepth=9).fetches


async def test_the_dashboard_offers_ends_of_pauses(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil, *, tmp_path: Path
) -> None:
    """A crawl, and a domain, is paused for the time that is chosen, and may be resumed sooner."""
    async with serve(hosts=1, pages=60, slow_pages=0) as served, chromium(tmp_path) as browser:
        host = served.web.hosts[0]
        name = await _begin(served, cluster, witness, wait_until)
        screens = Screens(await browser.tab(), cluster, wait_until)
        await screens.open(f"/ui/crawl?{urlencode(name)}")
        await _choose(screens, "until", 900, "[data-key=pause] button")
        await screens.reads("paused", "until ", "in 14 min", "Resume")
        told = await cluster.run("info", name["crawlid"], "--json")
        assert 800 < json.loads(told.out)["paused_until"] - time.time() <= 900
        assert "paused until" in (await cluster.run("info", name["crawlid"])).out
        await _press(screens, "[data-key=resume] button")
        await screens.reads("running", "Pause")
        await screens.finds(f"/ui/domains?name={host}", "#rule [name=hits]", "5")
        await _choose(screens, "paused_until", 86_400, "td select + button")
        await screens.reads("paused until", "nothing is fetched for 23 h", "Resume")
        await _press(screens, "td [name=paused_until][value='0'] + button")
        await screens.reads("5 per 1 s, evenly, 8 at a time", "5 requests/s")
        await witness.ended(name["crawlid"], timeout_s=90)
        assert served.fetches() == served.truth(maxdepth=9).fetches
        assert screens.tab.complaints == []


async def _choose(screens: Screens, field: str, seconds: int, button: str) -> None:
    """Choose how long, and pause."""
    await screens.tab.run(f"document.querySelector('select[name={field}]').value = '{seconds}'")
    await _press(screens, button)


async def _press(screens: Screens, button: str) -> None:
    await screens.tab.click(button)
    await screens.confirm()
