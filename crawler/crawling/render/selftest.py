"""Self-test of the browser, before it loads a page.

Browsers change with each update of the machine. The crawler does not start with a browser that
cannot run a script, or that connects to anything except through the gateway.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from crawling.render.browser import Browser
from crawling.render.cdp import BrowserGone, CommandFailed
from crawlstream.errors import ConfigError

_WITHIN_S = 20.0
_TRIES = """new Promise(done => {
  const here = "http://" + %s, pixel = new Image();
  const tries = [
    fetch(here + "/fetch", {mode: "no-cors"}),
    new Promise(end => { pixel.onerror = pixel.onload = end; pixel.src = here + "/pixel"; }),
    new Promise(end => { new WebSocket(here.replace("http", "ws")).onerror = end; }),
  ];
  navigator.sendBeacon(here + "/beacon", "x");
  const late = new Promise(end => setTimeout(end, 300));
  Promise.race([late, Promise.allSettled(tries)]).then(() => done(6 * 7));
})"""


async def self_test(browser: Browser, gateway: str) -> None:
    """Raise ConfigError, with advice, if the browser is not fit to render."""
    reached: list[None] = []

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(None)
        writer.close()

    canary = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = canary.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(_WITHIN_S):
            told = await _run(browser, gateway, _TRIES % json.dumps(f"127.0.0.1:{port}"))
    except (BrowserGone, CommandFailed, TimeoutError) as error:
        words = str(error) or f"no answer within {_WITHIN_S:g} s"
        raise ConfigError(f"the browser failed its self-test: {words}") from None
    finally:
        canary.close()
    if told != 42:
        raise ConfigError("the browser failed its self-test: it has not run a script")
    if reached:
        raise ConfigError(
            "the browser failed its self-test: it connects past the gateway; this version cannot be"
            " used (CRAWLSTREAM_RENDER_BROWSER names another one)"
        )


async def _run(browser: Browser, gateway: str, script: str) -> Any:
    """Return the value of a script in an empty page."""
    call = browser.pipe.call
    async with browser.context(gateway) as context:
        made = await call("Target.createTarget", url="about:blank", browserContextId=context)
        named = {"targetId": made["targetId"], "flatten": True}
        session = (await call("Target.attachToTarget", **named))["sessionId"]
        told = await call(
            "Runtime.evaluate", session, expression=script, awaitPromise=True, returnByValue=True
        )
        return told["result"].get("value")
