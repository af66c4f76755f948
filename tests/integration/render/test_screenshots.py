"""Screenshots of pages, and of pages that make them large, late or impossible."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from crawling.page.page import Screenshot
from crawling.render import screenshot
from crawlstream.model.result import digest_of
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.rendering import RenderBench, rendering
from support.crawler.spa import html, made_by
from support.waiting import WaitUntil

pytestmark = pytest.mark.asyncio(loop_scope="module")

RED = "<style>body {margin: 0} #a {width: 40px; height: 30px; background: #f00}</style>"
TEXT = Answer(b"text", headers={"Content-Type": "text/plain"})
PICTURE = Answer(b"none", headers={"Content-Type": "image/png"})
NOISE = """<canvas id=c width=1280 height=3000></canvas><script>
const to = c.getContext('2d'), all = to.createImageData(1280, 3000);
for (let at = 0; at < all.data.length; at += 65536)
  crypto.getRandomValues(all.data.subarray(at, at + 65536));
to.putImageData(all, 0, 0)</script>"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[RenderBench]:
    """A browser for all pages here: none may spoil it for the next."""
    async with rendering(render_timeout=3.0) as made:
        yield made


@pytest.fixture(autouse=True)
def _usual(bench: RenderBench) -> None:
    bench.rule()


async def taken(bench: RenderBench, page: Answer, part: str) -> Screenshot:
    """The screenshot of a page; the document of a failed one is there all the same."""
    with serving({"/": page}) as site:
        came = await bench.render(site.url("/"), render={"screenshot": part})
    assert came.status == 200
    assert came.body
    assert bench.latest is not None
    assert bench.latest.screenshot is not None
    return bench.latest.screenshot


def first_pixel(png: bytes) -> tuple[int, ...]:
    """Red, green and blue of the upper left corner."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        data += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return tuple(zlib.decompress(data)[1:4])


@pytest.mark.parametrize(
    ("part", "size", "pixel"),
    [
        ("viewport", (1280, 800), (255, 255, 255)),
        ("full", (1280, 3030), (255, 255, 255)),
        ("element:div#a", (40, 30), (255, 0, 0)),
    ],
)
async def test_a_part_of_the_page_is_in_the_picture(
    bench: RenderBench, part: str, size: tuple[int, int], pixel: tuple[int, ...]
) -> None:
    """Takes what the crawl names, wherever the page has scrolled to, as a PNG with its digest."""
    below = f"{RED}<div style='height: 3000px'></div><div id=a></div>"
    made = await taken(bench, html(below), part)
    assert made.body is not None
    assert first_pixel(made.body) == pixel
    assert made.told == {
        "width": size[0],
        "height": size[1],
        "size": len(made.body),
        "sha256": digest_of(made.body).removeprefix("sha256:"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "<div style='height: 100000px; background: linear-gradient(red, blue)'></div>",
        "<div style='width: 100000px; height: 9px'>wide</div>",
        NOISE,
    ],
    ids=["high", "wide", "noise"],
)
async def test_a_picture_is_bounded(bench: RenderBench, text: str) -> None:
    """Cuts a picture at 8 megapixels and 4 MiB, and says so."""
    made = await taken(bench, html(text), "full")
    assert made.body is not None
    assert made.told["truncated"] is True
    width, height = struct.unpack_from(">16x2L", made.body)
    assert 100_000 < width * height <= 8_000_000
    assert len(made.body) <= 4 * 1024 * 1024


AT_RESIZE = "addEventListener('resize', () => {{ {} }})"
LEADING = AT_RESIZE.format("location = '/other'")


@pytest.mark.parametrize(
    ("page", "part", "reason"),
    [
        (html("text"), "element:#none", "no_element"),
        (html(f"{RED}<p id=a style='display: none'>"), "element:#a", "no_element"),
        (html("text"), "element:[[", "bad_selector"),
        (TEXT, "viewport", "not_rendered"),
        (made_by(AT_RESIZE.format("for (;;);")), "full", "timeout"),
        (made_by("setTimeout(() => { location = 'about:blank' }, 50)"), "full", "moved"),
    ],
    ids=["none", "hidden", "selector", "text", "busy", "moved"],
)
async def test_a_page_without_a_picture_is_delivered_with_the_reason(
    bench: RenderBench, monkeypatch: pytest.MonkeyPatch, page: Answer, part: str, reason: str
) -> None:
    """Delivers a page whose screenshot fails, and renders the next one as usual."""
    if reason == "timeout":
        monkeypatch.setattr(screenshot, "_TAKE_S", 1.0)
    assert await taken(bench, page, part) == Screenshot({"error": reason})


async def test_a_browser_that_dies_costs_the_picture_alone(
    bench: RenderBench, wait_until: WaitUntil
) -> None:
    """Delivers a page whose browser dies at its picture; another browser renders the next."""
    async with bench.browsers.one() as browser:
        busy = made_by(AT_RESIZE.format("for (;;);"))
        making = asyncio.create_task(taken(bench, busy, "full"))
        await wait_until(browser.camera.locked)
        os.kill(browser.running.pid, signal.SIGKILL)
        assert await making == Screenshot({"error": "failed"})
    async with bench.browsers.one():
        pass
    assert (await taken(bench, html("text"), "viewport")).body


@pytest.mark.parametrize(
    "text",
    [
        "<style>@keyframes a {to {rotate: 1turn}} p {animation: a 1s infinite}</style><p>a",
        "<p id=a><script>(function f() { a.append('x'); requestAnimationFrame(f) })()</script>",
        f"<script>{LEADING}</script><p style='height: 2000px'>",
    ],
    ids=["animated", "changing", "leading"],
)
async def test_a_page_that_does_not_rest_has_a_picture(bench: RenderBench, text: str) -> None:
    """Takes the picture of an animated page, and of one that a script would leave."""
    made = await taken(bench, html(text), "full")
    assert made.body is not None


async def test_pictures_are_loaded_for_a_picture_alone(bench: RenderBench) -> None:
    """Loads images for screenshots, within the rule of the site, unless the operator sets types."""
    with serving({"/": html("<img src=/a.png><img src=/b.png>"), "/a.png": PICTURE}) as site:

        async def requested(**wish: object) -> set[str]:
            del site.visits[:]
            await bench.render(site.url("/"), render=wish)
            return set(site.paths()) - {"/"}

        assert await requested() == set()
        assert await requested(screenshot="viewport") == {"/a.png", "/b.png"}
        assert await requested(screenshot="viewport", types=["script"]) == set()
        bench.rule(render=1)
        assert len(await requested(screenshot="viewport")) == 1
    async with rendering(render_types=("script",)) as other:
        with serving({"/": html("<img src=/a.png>")}) as site:
            await other.render(site.url("/"), render={"screenshot": "viewport"})
            assert site.paths() == ["/"]


async def test_pages_that_are_rendered_at_once_all_have_pictures(bench: RenderBench) -> None:
    """Takes one picture at a time, of pages that are in the browser together."""
    pages = {f"/{n}": html(f"{RED}<div style='height: {2000 + n}px'>") for n in range(4)}
    made: dict[str, Mapping[str, Any]] = {}
    with serving(pages) as site:

        async def one(path: str) -> None:
            page = bench.page(site.url(path), render={"screenshot": "full"})
            await bench.client.fetch(bench.request(page), page)
            assert page.screenshot is not None
            made[path] = page.screenshot.told

        await asyncio.gather(*map(one, pages))
    assert sorted(one["height"] for one in made.values()) == [2000, 2001, 2002, 2003]
