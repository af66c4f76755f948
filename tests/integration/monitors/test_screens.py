"""Every screen in a real browser: on a phone, and for those who do not see it.

``AXE=axe.min.js`` (``npm pack axe-core``) has axe-core look at each screen as well, which must find
nothing to say of it; ``SCREENS=folder`` keeps a picture of each, by size and colours. Without them
a phone in light is enough: no other look has anything to be measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from redis.asyncio import Redis

from support.browser import Tab, chromium
from support.monitors import MonitorCluster
from support.pipelines.told import beat, report, tell_run
from support.rest import RestProcess, rest_beside_monitors
from support.waiting import WaitUntil

ASKED = "appid=shop&crawlid=spring"
SCREENS = (
    *("/", "/ui/crawls", "/ui/schedules", "/ui/domains", "/ui/rejected"),
    *("/ui/processes", "/ui/submit", "/docs", "/ui/pipelines", "/ui/pipelines/runs?name=archive"),
    *("/ui/proxies", "/ui/purses"),
    *("/ui/domains?name=127.0.0.1", "/ui/url?url=http://127.0.0.1/", "/ui/search?q=none"),
    *(f"/ui/crawl{screen}?{ASKED}" for screen in ("", "/failures", "/pages", "/runs")),
    *(
        f"/ui/page?partition=0&offset=0&q=e&tab={tab}"
        for tab in ("text", "preview", "links", "headers", "raw")
    ),
)
_FORMS = {
    f"/ui/crawl?{ASKED}": "[data-key=stop]",
    "/ui/submit": "form[data-file]",
    "/ui/domains": "#rule",
}
"""Forms whose answers are screens: a question, and two with problems."""
_SEEN = os.environ.get("SCREENS", "")
"""A folder for pictures of all of them, to be looked at."""
_AXE = Path(os.environ["AXE"]).read_text() if "AXE" in os.environ else ""
_ALL_LOOKS = [(w, h, dark) for w, h in ((390, 844), (1280, 800)) for dark in (False, True)]
_LOOKS = _ALL_LOOKS if _AXE or _SEEN else _ALL_LOOKS[:1]
_SIDEWAYS = (
    "[document.documentElement, ...document.querySelectorAll('header nav, .wide')]"
    ".filter((one) => one.scrollWidth > one.clientWidth + 1)"
    ".map((one) => one.className || one.localName)"
)
_CARDS = "[...document.querySelectorAll('.cards tbody tr:first-child td')]"


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service next to both monitors, without crawlers: seeds stay queued."""
    with rest_beside_monitors(cluster, tmp_path_factory.mktemp("rest"), wait_s=50) as service:
        yield service


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    """A browser's page."""
    async with chromium(tmp_path) as browser:
        yield await browser.tab()


PAGE = {
    "appid": "shop",
    "crawlid": "spring",
    "spiderid": "link",
    "run": 1,
    "status_code": 200,
    "url": "http://127.0.0.1/a-rather-long/address/that-does-not-break",
    "body_size": 50_000,
    "body": f"<h1>Here</h1><p>{'there ' * 20_000}</p>",
    "latency_ms": 5,
    "depth": 1,
    "parent_url": "http://127.0.0.1/",
    "response_headers": {"Content-Type": ["text/html"]},
    "links": [{"url": f"http://127.0.0.1/{'long' * 40}", "text": "one"}],
}


def _publish(cluster: MonitorCluster) -> None:
    """A page as a crawler publishes it."""
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    producer.send(cluster.topics.crawled, json.dumps(PAGE).encode(), partition=0).get(60)
    producer.close()


async def _fill(rest: RestProcess, wait_until: WaitUntil) -> None:
    """A crawl that waits, a rule of a domain."""
    seed = {"appid": "shop", "crawlid": "spring", "url": "http://127.0.0.1/", "maxdepth": 1}
    await rest.post("/v2/crawls", seed)
    await rest.call("PUT", "/v2/throttle/rules/a-rather-long-name.example.com", {"hits": 2})

    async def is_there() -> bool:
        return (await rest.get(f"/v2/crawl?{ASKED}")).status == 200

    await wait_until(is_there)


async def test_screens_suit_a_phone_and_a_screen_reader(
    rest: RestProcess, cluster: MonitorCluster, tab: Tab, redis: Redis, wait_until: WaitUntil
) -> None:
    """Fits a narrow screen; each cell has its name, and buttons come first."""
    await _fill(rest, wait_until)
    await asyncio.to_thread(_publish, cluster)
    quality = {"a.rather.long.name.of.a.field": {"present": 1, "valid": 0.5}}
    await asyncio.to_thread(partial(tell_run, cluster, fields=quality, score=0.5, ok=False))
    pipeline = await beat(redis, cluster, archive=report(), other=report(broken="No" * 60))
    for width, height, dark in _LOOKS:
        await tab.look(width=width, height=height, dark=dark)
        for screen in SCREENS:
            await pipeline.beat()
            await tab.go(f"http://127.0.0.1:{rest.port}{screen}")
            await _suits(tab, f"{screen} {width} {dark}", width)
        (rest_name,) = [one["name"] for one in await _processes(rest) if one["kind"] == "rest"]
        await tab.go(f"http://127.0.0.1:{rest.port}/ui/process?name={rest_name}")
        await wait_until(lambda: tab.run("document.querySelector('.wide tbody tr') !== null"))
        await _suits(tab, f"process {width} {dark}", width)
        for name, form in _FORMS.items():
            await tab.go(f"http://127.0.0.1:{rest.port}{name}")
            # Past the script that would ask, check and answer in its place.
            await tab.leave(f"document.querySelector({json.dumps(form)}).submit()")
            await _suits(tab, f"form of {name} {width} {dark}", width)
    await pipeline.retire()
    assert [one for one in tab.complaints if "/ui/do/" not in one] == []


async def _processes(rest: RestProcess) -> Any:
    return (await rest.get("/v2/processes")).data


async def _suits(tab: Tab, name: str, width: int) -> None:
    """The page as it is has nothing beyond its edge, and nothing that axe-core finds.

    A table that is wider than a large screen scrolls.
    """
    beyond = await tab.run(_SIDEWAYS)
    assert [one for one in beyond if width < 600 or not one.startswith("wide")] == [], name
    if width < 600:
        names = await tab.run(f"{_CARDS}.map((cell) => cell.dataset.name)")
        assert all(names), (name, names)
    if _AXE:
        assert await _violations(tab) == [], name
    if _SEEN:
        where = re.sub(r"\W+", "-", name).strip("-")
        await tab.picture(Path(_SEEN) / f"{where}.png")


async def test_a_crawl_on_a_phone_begins_with_its_buttons(
    rest: RestProcess, tab: Tab, wait_until: WaitUntil
) -> None:
    """Pause and Stop are in the first window, zeros are left out, and updates keep the cards."""
    await _fill(rest, wait_until)
    await tab.look(width=390, height=844)
    await tab.go(f"http://127.0.0.1:{rest.port}/ui/crawl?{ASKED}")
    top = "document.querySelector('[data-key=steer]').getBoundingClientRect().bottom"
    assert await tab.run(top) < 844
    told = await tab.run(
        "[...document.querySelectorAll('[data-key=ledger] dt')].map(d => d.innerText)"
    )
    assert {"admitted", "done", "failed"} <= set(told)
    assert not {"stopped", "expired", "spilled", "redirected"} & set(told)
    await tab.go(f"http://127.0.0.1:{rest.port}/ui/processes")
    await tab.run("window.wasHere = document.querySelector('.cards tbody tr')")
    await wait_until(lambda: _has_class(tab))
    assert all(await tab.run(f"{_CARDS}.map((cell) => cell.getAttribute('role') === 'cell')"))


async def _has_class(tab: Tab) -> bool:
    """Return whether the table is a card after the first live update, too."""
    return bool(
        await tab.run(
            "document.getElementById('link').className === 'up'"
            " && document.querySelector('.wide table').classList.contains('cards')"
        )
    )


async def _violations(tab: Tab) -> list[Any]:
    """Findings of axe-core on the page as it is: rule, help, and the elements."""
    await tab.run(f"{_AXE}; true")
    found = await tab.run("axe.run().then((result) => JSON.stringify(result.violations))")
    return [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in json.loads(found)
    ]
