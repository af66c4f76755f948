"""A page in a browser reaches no address that the guard refuses, by no way that browsers know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest
from redis.asyncio import Redis

from crawlstream.boot.addresses import Guard
from crawlstream.model.egress.render import TYPES
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.proxied import Bench
from support.crawler.proxies import small_proxy
from support.crawler.rendering import RenderBench, rendering
from support.crawler.spa import made_by
from support.crawler.visitor import LOCAL

DENIED = "127.9.9.9"
FORMS = (DENIED, "2131298569", "0x7f.9.9.9", "0177.011.011.011", "127.9.2313", "[::ffff:7f09:909]")
"""An address in spellings that a browser reads alike."""

BODY = """
<iframe src="{u}"></iframe><script src="{u}"></script><img src="{u}" srcset="{u} 2x">
<link rel=stylesheet href="{u}"><link rel=preconnect href="{u}"><link rel=dns-prefetch href="{u}">
<link rel=prefetch href="{u}"><link rel=preload as=fetch href="{u}">
<link rel=modulepreload href="{u}">
<link rel=icon href="{u}"><link rel=manifest href="{u}"><object data="{u}"></object>
<embed src="{u}"><video src="{u}" poster="{u}"></video><audio src="{u}"></audio>
<style>@import "{u}"; @font-face {{ font-family: f; src: url("{u}") }}
  body {{ font-family: f; background: url("{u}") }}</style>
<a id=a href="{u}" ping="{u}">a</a><form id=f action="{u}" method=post target=t></form>
<svg><image href="{u}"/><use href="{u}#a"/></svg><portal src="{u}"></portal>
<iframe srcdoc='<script>fetch("{u}")</script>'></iframe><iframe src="view-source:{u}"></iframe>
"""
CODE = """
const u = "{u}", tries = [
  () => fetch(u), () => fetch(u, {{method: "PUT", headers: {{a: "b"}}}}),
  () => {{ const x = new XMLHttpRequest(); x.open("GET", u); x.send() }},
  () => navigator.sendBeacon(u, "x"), () => new WebSocket(u.replace("http", "ws")),
  () => new EventSource(u), () => window.open(u), () => import(u),
  () => new Worker(URL.createObjectURL(new Blob(
    ["fetch('" + u + "'); importScripts('" + u + "')"]))),
  () => new SharedWorker(u), () => navigator.serviceWorker.register(u),
  () => new RTCPeerConnection({{iceServers: [{{urls: "stun:" + new URL(u).host}}]}})
    .createDataChannel("x"),
  () => document.getElementById("f").submit(),
  () => setTimeout(() => document.getElementById("a").click(), 700),
  () => new WebTransport(u.replace("http", "https")),
  () => {{ const w = document.createElement("iframe"); document.body.append(w);
    new w.contentWindow.WebSocket(u.replace("http", "ws")) }},
  () => history.pushState(0, "", u), () => setTimeout(() => location.assign(u), 800),
];
for (const each of tries) try {{ each()?.catch?.(() => 0) }} catch (error) {{}}
"""


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, came: list[str]) -> None:
        self._came = came

    def datagram_received(self, _data: bytes, _addr: object) -> None:
        self._came.append("udp")


@asynccontextmanager
async def canary() -> AsyncIterator[tuple[int, Sequence[str]]]:
    """Its port, and what has come to it by TCP and UDP."""
    came: list[str] = []

    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append("tcp")
        writer.close()

    server = await asyncio.start_server(connected, DENIED, 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    listening, _ = await loop.create_datagram_endpoint(
        lambda: _Datagrams(came), local_addr=(DENIED, port)
    )
    try:
        yield port, came
    finally:
        listening.close()
        server.close()


def guard_of(bench: RenderBench) -> None:
    """All of 127.0.0.0/8 is allowed but for what is denied."""
    guard = Guard(LOCAL, (ip_network("127.9.0.0/16"),))
    bench.resolver._guard = guard


async def _try_all(
    bench: RenderBench, port: int, came: Sequence[str], *, forms: Sequence[str], **profile: str
) -> None:
    """All that a page can do to reach the canary, and that it comes there where it may."""
    guard_of(bench)
    bench.rule(render=1000)
    pages = {
        f"/{n}": made_by(CODE.format(u=url), BODY.format(u=url))
        for n, url in enumerate(f"http://{form}:{port}/x" for form in forms)
    }
    redirects = {"/302": Answer(b"", 302, {"Location": f"http://{DENIED}:{port}/"})}
    with serving({**pages, **redirects, "/r": made_by("fetch('/302')")}) as site:
        for path in (*pages, "/r"):
            assert await bench.reason(site.url(path), **profile) in {"status 200", "status 303"}
            assert not came, path
    for form in forms:
        reason = await bench.reason(f"http://{form}:{port}/", **profile)
        assert reason in {"address_refused", "invalid_request", "connection_lost"}
    assert not came
    bench.resolver._guard = Guard(LOCAL)
    with serving({"/": made_by(CODE.format(u=f"http://{DENIED}:{port}/x"))}) as site:
        await bench.reason(site.url("/"), **profile)
    assert came, "where it is allowed, it is reached"


async def test_no_way_of_a_browser_leads_past_the_guard() -> None:
    """However a page asks, and however it writes the address: nothing comes there."""
    types = ",".join(TYPES)
    async with rendering(render_timeout=3.0, render_types=types) as bench, canary() as (port, came):
        await _try_all(bench, port, came, forms=FORMS)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_no_way_leads_past_the_guard_through_a_proxy(redis: Redis, scheme: str) -> None:
    """Not even asked is the proxy, which would go there; where it may, it is, and sends no UDP."""
    pools = Bench(redis)
    with small_proxy() as proxy:
        await pools.of(f"{scheme}://{proxy.url}")
        types = ",".join(TYPES)
        async with (
            rendering(pools.routes, render_timeout=3.0, render_types=types) as bench,
            canary() as (port, came),
        ):
            await _try_all(bench, port, came, forms=FORMS[:2], proxy="de")
            assert set(came) == {"tcp"}
            assert f"{DENIED}:{port}" in proxy.asked


@pytest.mark.parametrize("url", ["file:///etc/passwd", "chrome://version/", "data:text/html,a"])
async def test_only_the_web_is_rendered(url: str) -> None:
    """A page of any other scheme is none that a frontier has; nor does a redirect lead there."""
    async with rendering(render_timeout=3.0) as bench:
        answers = {
            "/": made_by(f"location = '{url}'", "<p>here"),
            "/f": made_by("", f"<iframe src='{url}'></iframe>"),
        }
        with serving(answers) as site:
            assert b"root:" not in (await bench.render(site.url("/"))).body
            assert b"root:" not in (await bench.render(site.url("/f"))).body
