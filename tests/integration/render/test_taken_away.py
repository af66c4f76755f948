"""Features that a browser does not have, as the scripts of a page meet it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.rendering import RenderBench, rendering
from support.crawler.spa import html, made_by


@pytest.fixture
async def bench() -> AsyncIterator[RenderBench]:
    """A browser that loads what pages of this module need."""
    async with rendering(
        render_timeout=8.0, render_types="document,script,stylesheet,fetch,image"
    ) as it:
        yield it


UNGUARDED = """
const root = document.createElement("iframe");
document.body.append(root);
const told = {}, port = location.port, other = "//127.0.0.2:" + port;
const once = (target, ...types) => Promise.all(types.map(type => new Promise(came =>
  target.addEventListener(type, event => came(type + ":" + (event.code ?? event.isTrusted))))));
const handled = (target, type) => new Promise(came => { target["on" + type] = () => came(type); });
const fails = promise => promise.then(() => "no failure", error => error.name);

async function tries(w) {
  const socket = new w.WebSocket("ws:" + other + "/socket", ["a", "b"]);
  const events = new w.EventSource("/events", {withCredentials: true});
  const peer = new w.RTCPeerConnection({iceServers: []}), channel = peer.createDataChannel("c");
  const old = new w.webkitRTCPeerConnection();
  const worker = new w.Worker("/worker.js"), shared = new w.SharedWorker("/shared.js");
  const transport = new w.WebTransport("https:" + other + "/");
  worker.postMessage("x"); shared.port.start(); shared.port.postMessage("x");
  const state = [socket.readyState, socket.url, events.readyState, w.WebSocket.OPEN,
    socket.CLOSED, peer.signalingState];
  const said = await Promise.all([
    once(socket, "error", "close"), handled(socket, "close"), once(events, "error"),
    once(peer, "connectionstatechange"), once(channel, "error", "close"),
    handled(worker, "error"), once(shared, "error"), fails(peer.createOffer()),
    fails(transport.ready), fails(transport.closed), fails(transport.createBidirectionalStream()),
    fails(w.navigator.serviceWorker.register("/service.js")),
    handled(old, "connectionstatechange"),
  ]);
  const registered = await w.navigator.serviceWorker.getRegistrations();
  socket.send("late"); socket.close(); events.close(); peer.close(); worker.terminate();
  const after = [socket.readyState, events.readyState, peer.connectionState, registered.length];
  const wrong = [];
  for (const make of [() => new w.WebSocket("http://["), () => new w.WebSocket("ftp://a/"),
    () => new w.EventSource("http://["), () => w.WebSocket("ws://a/")])
    try { make(); wrong.push("made"); } catch (error) { wrong.push(error.name); }
  return {state, said, after, wrong};
}
(async () => {
  for (const [name, w] of [["page", window], ["frame", root.contentWindow]])
    told[name] = await tries(w);
  told.beacon = navigator.sendBeacon("/beacon", "x");
  told.fetched = await (await fetch("/data")).text();
  const made = document.createElement("pre");
  made.textContent = JSON.stringify(told);
  document.body.append(made);
})();
"""


async def test_what_is_taken_away_fails_as_a_refused_connection_does(bench: RenderBench) -> None:
    """Scripts that guard nothing run to their end, in the page and in frames; nothing leaves."""
    with serving({"/": made_by(UNGUARDED), "/data": Answer(b"data")}) as site:
        came = await bench.render(site.url("/"), render={"wait_for": "pre"})
        told: Any = json.loads(came.css("pre::text").get("{}"))
        socket = f"ws://127.0.0.2:{site.port}/socket"
    assert came.status == 200, came.text
    assert told["fetched"] == "data"
    for each in (told["page"], told["frame"]):
        assert each["state"] == [0, socket, 0, 1, 3, "stable"]
        assert each["said"] == [
            ["error:false", "close:1006"],
            "close",
            ["error:false"],
            ["connectionstatechange:false"],
            ["error:false", "close:false"],
            "error",
            ["error:false"],
            *["NetworkError"] * 5,
            "connectionstatechange",
        ]
        assert each["after"] == [3, 2, "closed", 0]
        assert each["wrong"] == ["SyntaxError", "SyntaxError", "SyntaxError", "TypeError"]
    assert sorted(site.paths()) == ["/", "/data"]


async def test_a_page_meets_what_is_taken_away_in_every_kind_of_frame(bench: RenderBench) -> None:
    """In frames of other sites too; none of them has the browser's own."""
    code = """
const names = ["EventSource", "RTCPeerConnection", "SharedWorker", "WebSocket", "WebTransport",
  "Worker"];
const own = w => names.filter(name => /native code/.test(w[name]));
const frame = changes => {
  const made = Object.assign(document.createElement("iframe"), changes);
  document.body.append(made);
  return made;
};
const told = [window, frame({}).contentWindow, frame({srcdoc: "<p>x"}).contentWindow,
  frame({src: "javascript:'<p>x'"}).contentWindow].map(own).flat();
addEventListener("message", event => {
  document.body.append(Object.assign(document.createElement("pre"),
    {textContent: told.concat(event.data).join(" ")}));
});
frame({src: "http://127.0.0.2:" + location.port + "/frame"});
"""
    inside = made_by(
        "const socket = new WebSocket('ws://' + location.host + '/socket');"
        "socket.onclose = event => parent.postMessage(['closed', event.code], '*');"
    )
    with serving({"/": made_by(code), "/frame": inside}) as site:
        came = await bench.render(site.url("/"), render={"wait_for": "pre"})
    assert came.css("pre::text").get() == "closed 1006"
    assert sorted(site.paths()) == ["/", "/frame"]


async def test_only_cookies_for_the_target_go_where_a_script_leads(bench: RenderBench) -> None:
    """Neither a stranger's in a frame or fetch, nor one for another path or for TLS alone."""
    lax, foreign = "HttpOnly", "HttpOnly; Secure; SameSite=None"
    code = """
document.cookie = "own=1; path=/"; document.cookie = "far=2; path=/far";
document.cookie = "near=3; path=/next"; document.cookie = "own=4; path=/next";
const other = "http://127.0.0.2:" + location.port;
document.querySelector("iframe").onload = () =>
  fetch(other + "/set", {mode: "no-cors", credentials: "include"}).finally(() => {
    location = new URLSearchParams(location.search).get("to") || "/next";
  });
"""
    with serving({}) as site:
        other = site.url("", host="127.0.0.2")
        frame = f"<iframe src={other}/login></iframe>"
        site.pages["/"] = html(
            f"<!DOCTYPE html><body>{frame}<script>{code}</script>", **{"Set-Cookie": "http=5"}
        )
        away = site.url("/away", host="127.0.0.2")
        site.pages[f"/?to={away}"] = site.pages["/"]
        site.pages["/login"] = html("<p>x", **{"Set-Cookie": f"login=stranger; {lax}"})
        site.pages["/set"] = html("", **{"Set-Cookie": f"login=stranger; {foreign}"})
        came = await bench.render(site.url("/"), cookies={"k": "client"}, site="127.0.0.1")
        assert (came.status, came.headers.getlist("Location")) == (
            303,
            [site.url("/next").encode()],
        )
        told = sorted(line.decode() for line in came.headers.getlist("Set-Cookie"))
        assert told == ["http=5; Path=/", "near=3; Path=/", "own=4; Path=/"]
        came = await bench.render(site.url(f"/?to={away}"), cookies={"k": "client"})
        assert (came.status, came.headers.getlist("Location")) == (303, [away.encode()])
        assert came.headers.getlist("Set-Cookie") == []
