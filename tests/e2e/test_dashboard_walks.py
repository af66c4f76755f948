"""Walks of a person through the dashboard, on a desk and a phone, by day and by night."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve, ServedWeb
from e2e.test_dashboard import Screens
from support.browser import Tab, chromium
from support.waiting import WaitUntil

APP = "walks"
_LOOKS = ((1280, 800, False), (390, 844, True))
_CHOOSE = """(() => {
  const chosen = new DataTransfer();
  chosen.items.add(new File([%s], "seeds.csv"));
  const field = document.querySelector("[name=file]");
  field.files = chosen.files;
  field.dispatchEvent(new Event("input", { bubbles: true }));
})()"""
_ROWS = "appid,crawlid,url,maxdepth\nwalks,file,http://127.0.0.1:9/,0\nwalks,file,ftp://x,two\n"


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    """A page of a browser of its own."""
    folder = tmp_path / "chromium"
    folder.mkdir()
    async with chromium(folder) as browser:
        yield await browser.tab()


async def test_a_person_finds_a_way_on_every_screen(
    tab: Tab, serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """A bad file is explained, a missing URL found, a rule changed, two runs compared."""
    screens = Screens(tab, cluster, wait_until)
    async with serve(hosts=1, pages=4, slow_pages=0) as served:
        crawls = [f"{name}-{served.web.port}" for name in ("first", "second")]
        shared = {"appid": APP, "url": served.web.seed_url, "maxdepth": 9}
        witness.feed(*({**shared, "crawlid": crawlid} for crawlid in crawls))
        for crawlid in crawls:
            await witness.ended(crawlid)
        for number, (width, height, dark) in enumerate(_LOOKS):
            await tab.look(width=width, height=height, dark=dark)
            await _feed_a_bad_file(screens)
            await _look_for_a_page(screens, served)
            await _change_a_rule(screens, served.web.hosts[0], hits=20 + number)
            await _compare(screens, *crawls)
    assert [one for one in tab.complaints if "/v2/check" not in one] == []


async def _feed_a_bad_file(screens: Screens) -> None:
    await screens.open("/ui/submit")
    await screens.tab.run(_CHOOSE % json.dumps(_ROWS))
    await screens.reads("row 2: ", "maxdepth", selector="[data-file] [data-problems]")
    await screens.reads("walks,file,ftp://x", selector="[data-preview]")
    await screens.suits_everybody()


async def _look_for_a_page(screens: Screens, served: ServedWeb) -> None:
    """By the search box, to a page that is not there, and to one that is."""
    tab = screens.tab
    await screens.open("/ui/crawls")
    await _search(screens, f"{served.web.seed_url}nowhere")
    await screens.reads("No known crawl has admitted this URL")
    await screens.suits_everybody()
    await _search(screens, served.web.seed_url)
    await screens.reads("In crawls", "Results", "200")
    await tab.go(await tab.run("document.querySelector('a[href*=\"/ui/page?\"]').href"))
    await screens.reads("a seed", "Previous page", "text/html")
    assert await tab.text("h1") == served.web.seed_url


async def _search(screens: Screens, text: str) -> None:
    await screens.tab.fill("header [name=q]", text)
    await screens.tab.run("document.querySelector('header form').submit()")


async def _change_a_rule(screens: Screens, domain: str, *, hits: int) -> None:
    tab = screens.tab
    path = f"/ui/domains?name={domain}"
    await screens.open(path)
    await tab.fill("#rule [name=hits]", str(hits))
    await tab.fill("#rule [name=window]", "1")
    await screens.reads(f"{hits} requests/s", selector="[data-effect]")
    await tab.click("#rule button.main")
    await screens.confirm()
    await screens.reads(f"{hits} per 1 s", "Latest changes of this rule", "127.0.0.1")
    await screens.suits_everybody()


async def _compare(screens: Screens, first: str, second: str) -> None:
    tab = screens.tab
    await screens.open(f"/ui/crawl/runs?{urlencode({'appid': APP, 'crawlid': second})}")
    await tab.fill("[name=before_crawlid]", first)
    await tab.run("document.querySelector('main form').submit()")
    await screens.reads(f"of {first}", "Unchanged", "New pages")
    assert await tab.text("dl.figures div:nth-child(1) dd") == "0"
    await screens.suits_everybody()
