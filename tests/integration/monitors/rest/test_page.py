"""The screen about a page that was fetched, and its preview, which no browser leaves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from kafka import KafkaProducer

from support.browser import Tab, chromium
from support.hostile_texts import SCRIPTS
from support.monitors import MonitorCluster
from support.rest import RestProcess, rest_beside_monitors
from support.waiting import WaitUntil

APP, CRAWL = "page-app", "pages"
HTML = {"Accept": "text/html"}
TYPE = {"Content-Type": ["text/html; charset=utf-8"]}
HOST = "127.0.0.77"


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service next to both monitors, and a crawl that it knows."""
    folder = tmp_path_factory.mktemp("page")
    seed = {"appid": APP, "crawlid": CRAWL, "url": f"http://{HOST}/first"}
    with rest_beside_monitors(cluster, folder, wait_s=20) as service:
        service._call("POST", "/v2/crawls", seed, {})
        yield service


def _result(path: str, body: str, **more: object) -> dict[str, Any]:
    return {
        "appid": APP,
        "crawlid": CRAWL,
        "spiderid": "link",
        "run": 1,
        "depth": 1,
        "url": f"http://{HOST}{path}",
        "status_code": 200,
        "body": body,
        "links": [],
        "response_headers": TYPE,
        "body_size": len(body),
        "latency_ms": 7,
        **more,
    }


def _publish(cluster: MonitorCluster, records: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Publish results into partitions, one a millisecond; the paths of their screens."""
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    at = int(time.time() * 1000)
    places = []
    for number, (partition, record) in enumerate(records):
        value = json.dumps(record).encode()
        sent = producer.send(
            cluster.topics.crawled, value, partition=partition, timestamp_ms=at + number
        )
        place = sent.get(60)
        places.append(f"/ui/page?partition={place.partition}&offset={place.offset}")
    producer.close()
    return places


def _hostile(port: int) -> str:
    """A page that asks a browser to connect to a port in every way that there is."""
    at = f"http://{HOST}:{port}"
    elements = [
        *(f"<link rel={kind} href={at}/l>" for kind in _LINKS),
        f"<base href={at}/><meta http-equiv=refresh content='0;url={at}/refresh'>",
        "<meta http-equiv=x-dns-prefetch-control content=on>",
        (
            f"<style>@import '{at}/css'; body {{ background: url({at}/bg) }}"
            f" @font-face {{ font-family: f; src: url({at}/font) }} * {{ font-family: f }}</style>"
        ),
        f"<p style='background:url({at}/style);list-style:url({at}/list)'>x</p>",
        f"<img src={at}/img srcset='{at}/set 2x' lowsrc={at}/low dynsrc={at}/dyn>",
        f"<picture><source srcset={at}/source></picture><image src={at}/image>",
        f"<iframe src={at}/frame srcdoc='<img src={at}/inner>'></iframe><frame src={at}/f>",
        f"<object data={at}/object><embed src={at}/embed></object><applet code={at}/a></applet>",
        f"<video src={at}/video poster={at}/poster autoplay><track src={at}/track></video>",
        f"<audio src={at}/audio autoplay></audio><input type=image src={at}/input>",
        (
            f"<svg><image href={at}/svg xlink:href={at}/xl /><use href={at}/use#x />"
            f"<feImage href={at}/fe /><style>@import '{at}/svgcss'</style></svg>"
        ),
        f"<math href={at}/math><mglyph src={at}/glyph></math>",
        f"<body background={at}/body><table background={at}/table><td background={at}/td>",
        f"<a href={at}/a ping={at}/ping autofocus>a</a><area href={at}/area ping={at}/p>",
        f"<form action={at}/form><button formaction={at}/button>b</button></form>",
        f"<script src={at}/script></script><script>fetch('{at}/fetch')</script>",
        f"<noscript><img src={at}/noscript></noscript><template><img src={at}/t></template>",
        f"<script type=speculationrules>{{'prefetch':[{{'urls':['{at}/s']}}]}}</script>",
        f"<html manifest={at}/manifest><head profile={at}/profile><blockquote cite={at}/cite>",
        f"<math><mtext></form><form><mglyph><style></math><img src={at}/mutated>",
        f"<svg></p><style><a title='</style><img src={at}/mutated2>'>",
        f"<portal src={at}/portal></portal><fencedframe></fencedframe><bgsound src={at}/sound>",
    ]
    events = "".join(f"<p on{name}='location=\"{at}/{name}\"'>x" for name in _EVENTS)
    return f"<!doctype html><h1>Hostile</h1>{''.join(elements)}{events}{''.join(SCRIPTS)}"


_LINKS = (
    *("preconnect", "dns-prefetch", "prefetch", "preload", "prerender", "modulepreload"),
    *("stylesheet", "icon", "shortcut icon", "apple-touch-icon", "manifest", "next", "import"),
)
_EVENTS = ("load", "error", "focus", "click", "mouseover", "toggle", "animationstart")


@asynccontextmanager
async def _canary() -> AsyncIterator[tuple[int, list[object]]]:
    """A port that should get no connections; and those that it got."""
    heard: list[object] = []

    async def hear(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(hear, HOST)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def _is_filled(found: list[object]) -> bool:
    return bool(found)


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    """A browser's page."""
    async with chromium(tmp_path) as browser:
        yield await browser.tab()


async def test_the_preview_of_a_hostile_page_connects_to_nobody(
    rest: RestProcess, cluster: MonitorCluster, tab: Tab, wait_until: WaitUntil
) -> None:
    """Shown, framed, touched and clicked: not one connection to the page's site, not even bare."""
    base = f"http://127.0.0.1:{rest.port}"
    async with _canary() as (port, heard):
        (path,) = _publish(cluster, [(0, _result("/hostile", _hostile(port)))])
        place = path.partition("?")[2]
        raw = (await rest.get(f"/ui/page/preview?{place}", **HTML)).body.decode()
        assert str(port) not in raw.partition("</head>")[2]
        for screen in (f"/ui/page/preview?{place}", f"{path}&tab=preview", f"{path}&tab=links"):
            await tab.go(base + screen)
            for part in ("body", "h1", "iframe", "main a"):
                await tab.run(f"document.querySelector({json.dumps(part)})?.click()")
            await asyncio.sleep(1)
            assert (await tab.run("location.href")).startswith(base)
        assert heard == []
        assert tab.dialogs == []
        # A bare connection is noticed, too, which is part of the proof.
        link = f"<link rel=preconnect href=http://{HOST}:{port}><p>x"
        await tab.go(f"data:text/html,{quote(link)}")
        await wait_until(lambda: _is_filled(heard))


async def test_the_preview_has_rules_of_its_own(rest: RestProcess, cluster: MonitorCluster) -> None:
    """Loads, runs, sends and frames nothing in a preview; only HTML has one."""
    image = _result("/png", "iVBORw0K", body_encoding="base64", response_headers={})
    page, picture = _publish(cluster, [(0, _result("/p", "<p>x")), (0, image)])
    answer = await rest.get(page.replace("/ui/page", "/ui/page/preview"), **HTML)
    policy = dict(
        one.strip().partition(" ")[::2]
        for one in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["style-src"].startswith("'sha256-")
    assert (policy["frame-ancestors"], policy["sandbox"]) == ("'self'", "")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-dns-prefetch-control"] == "off"
    refused = await rest.get(picture.replace("/ui/page", "/ui/page/preview"))
    assert (refused.status, refused.error["code"]) == (422, "no_preview")
    assert b"sandbox title=" in (await rest.get(f"{page}&tab=preview", **HTML)).body
    assert b"not text" in (await rest.get(picture, **HTML)).body


async def test_a_page_is_read_in_parts(rest: RestProcess, cluster: MonitorCluster) -> None:
    """URL, status, size, latency and type on top; text, links, headers and body; a search in it."""
    links = [{"url": f"http://{HOST}/second", "text": "go & see"}, {"url": "http://x/", "text": ""}]
    body = f"<title>no</title><p>One &amp; two<p>{'far ' * 40_000}<b>needle</b> <i>Needle</i>"
    page = _result("/parts", body, links=links, parent_url=f"http://{HOST}/first")
    (path,) = _publish(cluster, [(1, page)])

    async def reads(more: str, *texts: str) -> str:
        told = (await rest.get(f"{path}{more}", **HTML)).body.decode()
        for text in texts:
            assert text in told, (more, text)
        return told

    top = ("/parts</h1>", "200</span>", "7 ms", "160.1 kB", "text/html; charset=utf-8", "first")
    text = await reads("", *top, "One &amp; two\nfar far", "Go on")
    assert "<b>needle" not in text
    await reads("&q=needle", "2 matches", '<mark id="match">needle</mark>', "<mark>Needle</mark>")
    await reads("&q=nowhere", "0 matches")
    await reads("&start=100000", "needle Needle", "From the beginning")
    lead = "/ui/page/of?appid=page-app&amp;crawlid=pages&amp;spiderid=link&amp;url=http%3A%2F%2F"
    await reads("&tab=links", lead, "go &amp; see", "http://x/")
    assert "http://x/" not in await reads("&tab=links&q=SEE", "go &amp; see")
    await reads("&tab=headers", "Content-Type", "Response", "Request")
    await reads("&tab=raw&q=%3Cb%3E", "1 match<", '<mark id="match">&lt;b&gt;</mark>needle')
    await reads("&tab=nonsense&end=nonsense", "One &amp; two")


async def test_a_page_leads_to_its_neighbours(
    rest: RestProcess, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """Previous and next by time over all partitions of one crawl; links to their pages."""
    order = [(number % 2, _result(f"/walk/{number}", "x", crawlid="walk")) for number in range(5)]
    other = (0, _result("/walk/else", "x", crawlid="else"))
    paths = _publish(cluster, [*order[:2], other, *order[2:]])
    del paths[2]

    async def led(path: str, way: str) -> str:
        answer = await rest.get(path.replace("/ui/page", f"/ui/page/{way}"), **HTML)
        assert answer.status == 303
        return answer.headers["location"]

    assert [await led(path, "newer") for path in paths[:-1]] == paths[1:]
    assert [await led(path, "older") for path in paths[1:]] == paths[:-1]
    assert await led(paths[-1], "newer") == f"{paths[-1]}&end=newer"
    assert await led(paths[0], "older") == f"{paths[0]}&end=older"
    told = await rest.get(f"{paths[0]}&end=older", **HTML)
    assert b"No earlier page of this crawl" in told.body

    async def is_known() -> bool:
        return (await rest.get(f"/v2/crawl?appid={APP}&crawlid={CRAWL}")).status == 200

    await wait_until(is_known)
    (mine,) = _publish(cluster, [(1, _result("/mine?a=1&b=2", "x"))])
    of = f"/ui/page/of?appid={APP}&crawlid={CRAWL}&url="
    found = await rest.get(of + quote(f"http://{HOST}/mine?b=2&a=1", safe=""), **HTML)
    assert (found.status, found.headers["location"]) == (303, mine)
    missing = await rest.get(of + quote(f"http://{HOST}/missing", safe=""), **HTML)
    assert missing.headers["location"].startswith("/ui/url?url=http%3A%2F%2F127.0.0.77%2Fmissing")
