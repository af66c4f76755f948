"""The dashboard in a browser, before a live cluster: every screen, by what a person reads and does.

One walk of a Chromium over all screens while a crawl runs, and one over everything that strangers
can write: what they wrote is read, and nothing of it runs.
"""

from __future__ import annotations

import html
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from crawlstream_chaos.scripted_site import HTML, Answer, Page, serving
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.browser import Tab, chromium
from support.hostile_texts import SCRIPTS
from support.waiting import WaitUntil

APP = "dashboard"
_SIZES = ((1280, 900, False), (390, 844, True))
"""A desk in light, a phone in the dark."""


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    """A page of a browser of its own."""
    folder = tmp_path / "chromium"
    folder.mkdir()
    async with chromium(folder) as browser:
        yield await browser.tab()


class Screens:
    """A person before the dashboard of a cluster."""

    def __init__(self, tab: Tab, cluster: Cluster, wait_until: WaitUntil) -> None:
        self.tab = tab
        self._base = f"http://127.0.0.1:{cluster.environment['CRAWLSTREAM_REST_PORT']}"
        self._wait_until = wait_until

    async def open(self, path: str) -> None:
        """Open a screen."""
        await self.tab.go(self._base + path)

    async def reads(self, *texts: str, selector: str = "body") -> None:
        """Wait until all of this can be read at once, on a page that is whole."""

        async def are_there() -> bool:
            seen = await self.tab.text(selector)
            is_whole = await self.tab.run("document.readyState === 'complete'")
            return is_whole and all(text in seen for text in texts)

        await self._wait_until(are_there)

    async def reads_in_the_end(self, text: str) -> None:
        """Load the page again until this can be read: Kafka may not have answered in time."""

        async def is_there() -> bool:
            if text in await self.tab.text():
                return True
            await self.tab.leave("location.reload()")
            return False

        await self._wait_until(is_there, every_s=0.5)

    async def figure(self, name: str) -> str:
        """The value of a figure, as it is now."""
        return (await self.tab.text(f'[data-key="{name}"] dd')).partition("\n")[0]

    async def moves(self, name: str) -> None:
        """Wait until a figure changes by itself, without a reload."""
        await self.tab.run("window.wasHere = true")
        before = await self.figure(name)

        async def has_moved() -> bool:
            return await self.figure(name) != before

        await self._wait_until(has_moved)
        assert await self.tab.run("window.wasHere") is True

    async def draws(self, charts: int) -> None:
        """Wait until this number of charts is drawn, and none is empty."""
        drawn = "document.querySelectorAll('.plot canvas').length"

        async def are_drawn() -> bool:
            return bool(await self.tab.run(drawn) == charts)

        await self._wait_until(are_drawn)
        assert "No values" not in await self.tab.text(".charts")

    async def finds(self, path: str, field: str, value: str) -> None:
        """Open a screen until a field of a form is filled with this."""

        async def is_filled() -> bool:
            await self.open(path)
            found = await self.tab.run(f"document.querySelector({json.dumps(field)}).value")
            return bool(found == value)

        await self._wait_until(is_filled)

    async def follow(self, text: str) -> None:
        """Follow the first link with this text."""
        named = f"(link) => link.text === {json.dumps(text)}"
        await self.tab.go(await self.tab.run(f"[...document.links].find({named}).href"))

    async def confirm(self) -> None:
        """Confirm the dialog."""
        assert await self.tab.run("document.getElementById('ask').open")
        await self.tab.click("#ask button[value=yes]")

    async def suits_everybody(self) -> None:
        """No screen is wider than the window, and a screen reader has a name for every part."""
        assert await self.tab.run("document.documentElement.scrollWidth - innerWidth") <= 0
        unnamed = await self.tab.run(_UNNAMED)
        assert unnamed == [], await self.tab.run("location.href")
        assert await self.tab.run("document.querySelectorAll('h1').length") == 1


_UNNAMED = (
    "[...document.querySelectorAll("
    "'main :is(input:not([type=hidden]), select, textarea, [role=img], [role=region])')]"
    ".filter((one) => !one.labels?.length && !one.ariaLabel).map((one) => one.outerHTML)"
)


@asynccontextmanager
async def _crawl_under_way(
    serve: Serve, cluster: Cluster, witness: Witness
) -> AsyncIterator[tuple[str, str]]:
    """A crawl that goes on for as long as it is looked at; its id and the domain it is in."""
    async with serve(hosts=1, pages=2000, slow_pages=0) as served:
        domain = served.web.hosts[0]
        await cluster.throttle("set", domain, "--hits", "6", "--window", "1")
        crawlid = f"walk-{served.web.port}"
        seed = {"url": served.web.seed_url, "appid": APP, "crawlid": crawlid, "maxdepth": 9}
        witness.feed(seed, {"appid": APP, "crawlid": crawlid, "nonsense": 1})
        yield crawlid, domain
        witness.feed_request(appid=APP, spiderid="link", crawlid=crawlid, action="stop")


async def test_a_person_walks_every_screen(
    tab: Tab, serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """Each screen shows the true state, updates itself, and acts, without an error message."""
    screens = Screens(tab, cluster, wait_until)
    async with _crawl_under_way(serve, cluster, witness) as (crawlid, domain):
        await _see_the_cluster(screens, crawlid)
        await _see_the_crawl(screens, crawlid, domain)
        await _see_what_came(screens, crawlid)
        await _steer(screens, crawlid, domain)
        await _feed_again(screens, crawlid)
        await _start_one(screens)
        await _wait_for_a_crawler(screens, witness)
        for width, height, dark in _SIZES:
            await tab.look(width=width, height=height, dark=dark)
            for path in ("/", "/ui/crawls", _crawl_path(crawlid), "/ui/domains", "/ui/submit"):
                await screens.open(path)
                await screens.suits_everybody()
    # Messages of the browser about the wrong seeds above.
    assert [one for one in tab.complaints if "/v2/check" not in one] == []


def _crawl_path(crawlid: str, screen: str = "/ui/crawl") -> str:
    return f"{screen}?{urlencode({'appid': APP, 'crawlid': crawlid})}"


async def _see_the_cluster(screens: Screens, crawlid: str) -> None:
    await screens.open("/")
    await screens.reads("Pages per second", "Latency", "Success", crawlid, "running", "crawler")
    await screens.reads("live", selector="#link")
    await screens.moves("Waiting")
    await screens.draws(4)
    for span, plots in ((3600, 3), (86400, 3), (604800, 3)):
        await screens.open(f"/?span={span}")
        await screens.reads("Charts over", "Downloads per second, by status")
        assert await screens.tab.run("document.querySelectorAll('.plot').length") == plots
    await screens.open("/ui/processes")
    await screens.reads("Kafka answers", "Redis answers", "redis-monitor", "kafka-monitor", "rest")
    await screens.reads("MB", "Per second", selector="table")
    await screens.open("/ui/crawls?state=running&appid=" + APP)
    await screens.reads(crawlid, "running")


async def _see_the_crawl(screens: Screens, crawlid: str, domain: str) -> None:
    await screens.open("/ui/crawls")
    await screens.follow(crawlid)
    await screens.reads(f"Crawl {crawlid}", "Never admitted", "balanced", domain, "duplicate")
    await screens.tab.run("document.querySelector('[data-key=pause] button').focus()")
    await screens.moves("done")
    assert await screens.tab.run("document.activeElement.innerText") == "Pause"


async def _see_what_came(screens: Screens, crawlid: str) -> None:
    tab = screens.tab
    for width, height, dark in _SIZES:
        await tab.look(width=width, height=height, dark=dark)
        await screens.open(_crawl_path(crawlid, "/ui/crawl/pages"))
        await screens.reads("http://127.", "200", "4xx")
        await screens.suits_everybody()
        await tab.go(await tab.run("document.querySelector('.sorts a[href*=\"status=2\"]').href"))
        # Some pages are pictures, and one is the seed.
        for link in await tab.run(_PAGES):
            await tab.go(link)
            if {"text/html;", "found"} <= set((await tab.text()).split()):
                break
        await screens.reads("200", "text/html", "found on", crawlid, "Previous page")
        await screens.suits_everybody()
        url = await tab.text("h1")
        for title, told in (
            ("Preview", "nothing is loaded"),
            ("Headers", "Response"),
            ("Raw", "<"),
        ):
            await screens.follow(title)
            await screens.reads(told, url)
            await screens.suits_everybody()
        await tab.fill("main [name=q]", "<h1>")
        await tab.leave("document.querySelector('main form').submit()")
        await screens.reads_in_the_end("1 match")
        assert await tab.text("mark") == "<h1>"
        # A parent leads to its own page, and that one to the story of its URL.
        await tab.go(await tab.run("document.querySelector('a[href*=\"/ui/page/of\"]').href"))
        await screens.reads("Next page", "All that is known of this URL")
        assert await tab.text("h1") != url
        await screens.follow("All that is known of this URL")
        await screens.reads("In crawls", "Results", crawlid)
        await screens.suits_everybody()
    await tab.look(width=1280, height=900)
    await screens.open(_crawl_path(crawlid, "/ui/crawl/failures"))
    await screens.reads(f"Failures of {crawlid}", "Export as CSV")


_PAGES = "[...document.querySelectorAll('tbody .url a')].map((link) => link.href)"


async def _steer(screens: Screens, crawlid: str, domain: str) -> None:
    tab = screens.tab
    # The form, which does not update itself, lacks values that Redis did not return in time.
    await screens.finds(f"/ui/domains?name={domain}", "#rule [name=hits]", "6")
    await screens.reads("6 per 1 s", "own", "busy", "By default")
    await screens.reads("6 requests/s", selector="[data-effect]")
    await tab.click("[data-choices] button")
    await screens.reads("12 requests/s", selector="[data-effect]")
    await tab.fill("#rule [name=hits]", "7")
    await screens.reads("7 requests/s", selector="[data-effect]")
    await tab.click("#rule button.main")
    await screens.confirm()
    await screens.reads("7 per 1 s")
    await screens.open(_crawl_path(crawlid))
    await screens.reads("Pause")
    await tab.click('[data-key="pause"] button')
    await screens.confirm()
    await screens.reads("paused", "held back", "Resume")


async def _feed_again(screens: Screens, crawlid: str) -> None:
    tab = screens.tab
    await screens.open("/ui/rejected")
    await screens.reads("bad_request", "nonsense")
    await tab.go(await tab.run("document.querySelector('.sorts a[href*=bad_request]').href"))
    await tab.click("[data-all] input")
    chosen = "[...document.querySelectorAll('[name=record]:enabled')].every((box) => box.checked)"
    assert await tab.run(chosen)
    await tab.click("[data-all] input")
    row = "[...document.querySelectorAll('tr')].find((row) => row.innerText.includes('nonsense'))"
    await tab.run(f"{row}.querySelector('input').click()")
    await tab.click("button.main")
    await screens.confirm()
    await screens.reads("1 replayed")
    await tab.go(await tab.run(f"{row}.querySelector('a').href"))
    await screens.reads("A rejected record", crawlid, "Received record")
    await tab.fill("[name=raw]", json.dumps({"appid": APP, "crawlid": "mended"}))
    await screens.reads("'url' is missing", selector="[data-problems]")
    seed = {"appid": APP, "crawlid": "mended", "url": "http://127.0.0.1:9/"}
    await tab.fill("[name=raw]", json.dumps(seed))
    await screens.reads("1 seed;", selector="[data-estimate]")
    await tab.click("[data-check] button.main")
    await screens.confirm()
    await screens.reads("1 fed", "See crawl mended", selector="#said")


async def _start_one(screens: Screens) -> None:
    tab = screens.tab
    await screens.open("/ui/submit")
    await tab.fill("[name=urls]", "ftp://example.com")
    await screens.reads("url", selector='[data-for="urls"]')
    await tab.fill("[name=urls]", "http://127.0.0.1:9/")
    await tab.fill("[name=maxdepth]", "-1")
    await screens.reads("maxdepth", selector='[data-for="maxdepth"]')
    await tab.fill("[name=maxdepth]", "0")
    await screens.reads("", selector='[data-for="maxdepth"]')
    await screens.reads("1 seed; 127.0.0.1 gives a page each", selector="[data-estimate]")
    await tab.fill("[name=spiderid]", "produkte")
    await screens.reads("No crawler of spider produkte is running", selector="[data-warnings]")
    await tab.fill("[name=spiderid]", "link")
    await tab.click("summary")
    await tab.fill("[name=attrs]", "no JSON")
    await screens.reads("attrs: must be object", selector='[data-for="attrs"]')
    await tab.fill("[name=attrs]", '{"job": 7}')
    await tab.fill("[name=headers]", "Accept-Language: en")
    await screens.reads("1 seed;", selector="[data-estimate]")
    await tab.click("form[action*=crawls] button.main")
    await screens.reads("1 fed", "See crawl", selector="#said")
    await screens.follow(await tab.text("#said a"))
    # It takes minutes to end: nothing answers there.
    await tab.go((await tab.run("location.href")).replace("/ui/crawl?", "/ui/submit?"))
    await screens.reads("Repeat crawl")
    filled = "(name) => document.querySelector(`[name=${name}]`).value"
    told = {name: await tab.run(f"({filled})('{name}')") for name in _REPEATED}
    assert told == _REPEATED


_REPEATED = {
    "urls": "http://127.0.0.1:9/",
    "allowed_domains": "127.0.0.1",
    "headers": "Accept-Language: en",
    "attrs": '{"job":7}',
    "scope": "any",
}
"""The scope that was chosen is a field of the request by then."""


async def _wait_for_a_crawler(screens: Screens, witness: Witness) -> None:
    """Each view of a crawl whose spider has no crawler says so, and how to end the crawl."""
    name = {"appid": APP, "crawlid": "unheard", "spiderid": "unheard-of"}
    witness.feed({"url": "http://127.0.0.1:9/", **name})
    badge, remedy = "waiting: no crawler of unheard-of", "up -d --spider unheard-of=1"
    for path in ("/", f"/ui/crawls?appid={APP}", f"/ui/crawl?{urlencode(name)}"):
        await screens.open(path)
        await screens.reads(badge, "No crawler of spider unheard-of", remedy)
    witness.feed_request(**name, action="stop")


SHORT, BREAKING = "<script>alert(1)</script>", '"><svg/onload=alert(1)>'
"""Ids have 40 characters at most: an element, and an attribute that ends early."""
_TOGETHER = 20
"""Scripts in one page."""
_SHOWN = (
    "[...document.querySelectorAll('tbody tr')].filter((row) => row.innerText.includes('{of}'))"
    ".map((row) => row.querySelector('a').href)"
)
"""Links of the rows in which a text can be read."""
HOST = "127.250.1.1"


def _hostile_web() -> Mapping[str, Page]:
    """Pages with scripts in bodies, titles, addresses, texts of links, and headers."""
    pages: dict[str, Page] = {"/robots.txt": Answer(b"User-agent: *\nDisallow: /private/")}
    for start in range(0, len(SCRIPTS), _TOGETHER):
        some = SCRIPTS[start : start + _TOGETHER]
        plain = [text for text in some if text.isascii() and text.isprintable()]
        headers = {f"X-Says-{number}": text for number, text in enumerate(plain)}
        body = "".join(f"<title>{text}</title>{text}" for text in some)
        pages[f"/p/{start}"] = Answer(body.encode(), headers={**HTML, **headers})
    # Number that fits on one screen next to the pages.
    addresses = [f"/q?{quote(text, safe=_AS_IT_IS)}" for text in SCRIPTS[::2]]
    forbidden = [f"/private/{quote(text, safe=_AS_IT_IS)}" for text in SCRIPTS]
    links = [*pages, *addresses, *forbidden]
    anchors = "".join(f'<a href="{html.escape(path)}">{SHORT}</a>' for path in links)
    return {**pages, **dict.fromkeys(addresses, Answer(b"q")), "/": Answer(anchors.encode())}


_AS_IT_IS = "()=:;,!*'"


async def test_what_strangers_wrote_is_read_and_never_runs(
    tab: Tab, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """A hundred scripts as bodies, titles, URLs, headers, ids and errors run nowhere."""
    assert len(SCRIPTS) >= 100
    screens = Screens(tab, cluster, wait_until)
    with serving(_hostile_web()) as site:
        shared = {"appid": BREAKING, "url": site.url("/", HOST), "maxdepth": 1}
        waiting = {**shared, "crawlid": BREAKING, "not_before": int(time.time()) + 3600}
        strange = [{"appid": BREAKING, "crawlid": "x", text: 1} for text in SCRIPTS]
        witness.feed({**shared, "crawlid": SHORT}, waiting, *strange)
        assert (await witness.ended(SHORT))["counters"]["failed"] >= 90
    with pytest.raises(AssertionError, match="is not a host"):
        await cluster.throttle("block", BREAKING)
    screens_of_it = [
        *("/", f"/ui/crawls?appid={quote(BREAKING)}", "/ui/rejected", _hostile_path("/ui/crawl")),
        *(_hostile_path("/ui/crawl/pages"), _hostile_path("/ui/crawl/failures")),
    ]
    for path in screens_of_it:
        await screens.open(path)
        await screens.reads("alert(1)")
        await _touch_everything(tab)
    await screens.open(_hostile_path("/ui/crawl/pages"))
    pages = await tab.run(_SHOWN.format(of="/p/"))
    await screens.open("/ui/rejected")
    rejected = await tab.run(_SHOWN.format(of="alert(1)"))
    assert len(pages) == -(-len(SCRIPTS) // _TOGETHER)
    assert len(rejected) > 50
    for address in [*pages, *rejected[:3]]:
        await tab.go(address)
        await screens.reads("alert(1)")
        await _touch_everything(tab)
    witness.feed_request(appid=BREAKING, spiderid="link", crawlid=BREAKING, action="stop")
    # Proves that an alert would have been recorded.
    await tab.run("alert('heard')")
    assert tab.dialogs == ["heard"]
    assert tab.complaints == []


def _hostile_path(screen: str) -> str:
    return f"{screen}?{urlencode({'appid': BREAKING, 'crawlid': SHORT})}"


async def _touch_everything(tab: Tab) -> None:
    """Touch every element: none is a stranger's, none does anything."""
    strange = "main :is(script, iframe, object, embed, img, base, style, video, audio, template)"
    assert await tab.run(f"document.querySelectorAll('{strange}').length") == 0
    await tab.run(
        "for (const one of document.querySelectorAll('main *'))"
        " for (const name of ['mouseover', 'pointerenter', 'focus', 'load', 'error', 'toggle'])"
        " one.dispatchEvent(new Event(name))"
    )
