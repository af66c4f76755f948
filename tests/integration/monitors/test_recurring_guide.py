"""The table of docs/recurring.md: what each of its lines promises is seen in a site's log."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from crawlstream_chaos.scripted_site import HTML, Answer, SeenRequest, page, serving
from crawlstream_chaos.witness import Witness
from support.monitors import MonitorCluster
from support.pipelines.targets import select
from support.recurring.house import House
from support.waiting import wait_until

GUIDE = Path(__file__).parents[3] / "docs" / "recurring.md"
BASE = {"cron": "0 0 29 2 *", "crawl": {"crawlid": "news"}}
Fields = dict[str, Any]
Check = Callable[[House, str, Fields], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def wish(line: str) -> Callable[[Check], Check]:
    """The check is of the line that begins so."""

    def keep(check: Check) -> Check:
        CHECKS[line] = check
        return check

    return keep


def lines_of_the_guide() -> Mapping[str, Fields]:
    """An aim of the guide, and the fields for it."""
    rows = re.findall(r"^\| ([^|]+) \| (`\".*) \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
    return {
        wanted: json.loads("{" + ", ".join(re.findall(r"`(\"[^`]*)`", said)) + "}")
        for wanted, said in rows
    }


@pytest.fixture(scope="module")
def house(
    cluster: MonitorCluster, witness: Witness, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A cluster with a crawler of each kind."""
    with serving({}) as site:
        house = House(cluster, witness, site, tmp_path_factory.mktemp("seeds"))
        with (
            cluster.kafka_monitor(**house.options),
            house.redis_monitor(),
            cluster.crawler("link"),
            cluster.crawler("sitemap"),
        ):
            yield house


@wish("everything again every night")
async def _each_a_crawl(house: House, appid: str, told: Fields) -> None:
    house.begin(hub=page("/a"), a=page())
    await house.say(appid, "set", **told)
    for _ in range(2):
        await house.fire(appid)
    assert house.visits() == {"/hub": 2, "/a": 2}
    assert len({one["crawlid"] for one in house.events(appid, "schedule_fired")}) == 2


@wish("the same few pages every ten minutes")
async def _seeds_only(house: House, appid: str, told: Fields) -> None:
    house.begin(hub=page("/a"))
    await house.say(appid, "set", **told)
    for _ in range(3):
        await house.fire(appid)
    assert house.visits() == {"/hub": 3}


@wish("only new pages")
async def _new_pages(house: House, appid: str, told: Fields) -> None:
    house.begin(hub=page("/a", "/b"), a=page(), b=page())
    await house.say(appid, "set", **told)
    await house.fire(appid)
    house.site.pages |= {"/hub": page("/b", "/c"), "/c": page()}
    for _ in range(2):
        await house.fire(appid)
    assert house.visits() == {"/hub": 3, "/a": 1, "/b": 1, "/c": 1}


@wish("links to other hosts, too")
async def _anywhere(house: House, appid: str, told: Fields) -> None:
    house.begin(hub=page(house.site.url("/b", host="127.0.0.2")), b=page())
    told["crawl"] = {"crawlid": "news", "maxdepth": 1}
    await house.say(appid, "set", **told)
    await house.fire(appid)
    assert house.visits() == {"/hub": 1, "/b": 1}
    del told["scope"]
    await house.say(f"{appid}-own", "set", **told)
    await house.fire(f"{appid}-own")
    assert house.visits() == {"/hub": 2, "/b": 1}


@wish("what sitemaps and feeds say is new or changed")
async def _versions(house: House, appid: str, told: Fields) -> None:
    def sitemap(**days: str) -> Answer:
        urls = (f"<url><loc>/{n}</loc><lastmod>{day}</lastmod></url>" for n, day in days.items())
        return Answer(f"<urlset>{''.join(urls)}</urlset>".encode())

    house.begin(hub=sitemap(a="2026-11-01", b="2026-11-01"), a=page(), b=page(), c=page())
    await house.say(appid, "set", **told)
    await house.fire(appid)
    house.site.pages["/hub"] = sitemap(a="2026-11-01", b="2026-11-02", c="2026-11-02")
    for _ in range(2):
        await house.fire(appid)
    assert house.visits() == {"/hub": 3, "/a": 1, "/b": 2, "/c": 1}


@wish("the seeds that a file has at that moment")
async def _of_a_file(house: House, appid: str, told: Fields) -> None:
    house.begin(a=page(), b=page())
    file = house.seeds / Path(told.pop("seeds_from")).name
    del told["seeds"]
    await house.say(appid, "set", seeds_from=f"file://{file}", **told)
    for path in ("/a", "/b"):
        file.write_text(f"url,priority\n{house.site.url(path)},70\n")
        await house.fire(appid)
    assert house.visits() == {"/a": 1, "/b": 1}


@wish("the local time of a place")
async def _in_a_zone(house: House, appid: str, told: Fields) -> None:
    reply = await house.say(appid, "set", **told)
    at = datetime.fromtimestamp(reply["next"], ZoneInfo("Europe/Berlin"))
    assert (at.hour, at.minute, at.weekday() < 5) == (6, 0, True)
    assert 0 < reply["next"] - time.time() < 3 * 86_400 + 3_600


@wish("no crowd at the full hour")
async def _spread(house: House, appid: str, told: Fields) -> None:
    replies = [await house.say(f"{appid}{n}", "set", **told) for n in range(6)]
    minutes = [reply["next"] % 3_600 for reply in replies]
    assert len(set(minutes)) > 1
    assert all(0 <= minute <= 600 for minute in minutes)


@wish("a new firing to replace one that takes too long")
async def _instead(house: House, appid: str, told: Fields) -> None:
    is_over = Event()

    def slow(_: SeenRequest) -> Answer:
        is_over.wait(60)
        return page()

    house.begin(hub=slow, a=page())
    await house.say(appid, "set", **{**told, "crawl": {"crawlid": "news", "maxdepth": 1}})
    await house.say(appid, "fire")
    await wait_until(lambda: house.events(appid, "schedule_fired") and house.visits()["/hub"] == 1)
    house.site.pages["/hub"] = page("/a")
    await house.fire(appid)
    is_over.set()
    await wait_until(lambda: house.events(appid, "crawl_stopped"))
    (stopped,) = house.events(appid, "crawl_stopped")
    (finished,) = house.events(appid, "crawl_finished")
    assert (stopped["run"], finished["run"]) == (1, 2)
    assert house.visits() == {"/hub": 2, "/a": 1}


def _has_skipped(house: House, appid: str, reasons: set[str]) -> bool:
    found = {one["reason"] for one in house.events(appid, "schedule_skipped")}
    assert found <= reasons
    return found == reasons


@wish("no late firing after an outage")
async def _nothing_late(house: House, appid: str, told: Fields) -> None:
    house.begin(hub=page())
    minute = datetime.fromtimestamp(time.time() - 300, UTC).minute
    for catch_up, outcome in ((told["catch_up_s"], "schedule_skipped"), (3_600, "schedule_fired")):
        name = f"{appid}{catch_up}"
        hourly = {**told, "cron": f"{minute} * * * *", "catch_up_s": catch_up}
        await house.say(name, "set", **hourly)
        # As if no monitor had run for three hours.
        await house.later(name, "since", -3 * 3_600)
        told_of = partial(house.is_told, name, outcome)
        await wait_until(told_of, every_s=0.3)
        reasons = {"missed"} if catch_up else {"missed", "late"}
        await wait_until(partial(_has_skipped, house, name, reasons))
    await wait_until(house.visits)
    assert house.visits() == {"/hub": 1}


@pytest.mark.parametrize(
    "wanted", [pytest.param(each, id=each.replace(" ", "-")) for each in CHECKS]
)
async def test_who_says_so_gets_it(house: House, wanted: str) -> None:
    """The fields of the line, fed to a cluster, do what the line promises."""
    appid = f"app{list(CHECKS).index(wanted)}"
    told = {**BASE, "seeds": [house.site.url("/hub")], **lines_of_the_guide()[wanted]}
    # A line that is not about its times fires at a command.
    if "cron" in told and not told.keys() & {"zone", "jitter_s"}:
        told["cron"] = BASE["cron"]
    await CHECKS[wanted](house, appid, told)


def test_no_line_is_without_its_test() -> None:
    """Tests each line of the guide, and has no test without its line."""
    assert list(lines_of_the_guide()) == list(CHECKS)


def versions(
    path: str, *, lies: bool = False, is_still: bool = False
) -> Callable[[SeenRequest], Answer]:
    """A page that is another one at each visit, and says so unless it lies."""
    visits = itertools.count()

    def answer(visit: SeenRequest) -> Answer:
        number = 0 if is_still else next(visits)
        etag = f'"{path}"' if lies or is_still else f'"{number}"'
        if is_still and visit.headers.get("if-none-match") == etag:
            return Answer(status=304, headers={"ETag": etag})
        return Answer(f"<p>{path} {number}</p>".encode(), headers={**HTML, "ETag": etag})

    return answer


def once() -> Callable[[SeenRequest], Answer]:
    """A page that is gone at the second visit."""
    visits = itertools.count()
    return lambda _: page() if next(visits) == 0 else Answer(status=404)


async def test_each_page_as_often_as_it_changes(house: House, tmp_path: Path) -> None:
    """The memory of the guide visits the pages found, within its budget, whichever process dies."""
    text, *_ = re.findall(r"```toml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    database, file = tmp_path / "news.db", tmp_path / "pipelines.toml"
    text = text.replace("sqlite:///news.db", f"sqlite:///{database}")
    # Two visits a second, where the guide says five thousand a day.
    file.write_text(text.replace("per_day = 5000", f"per_day = {2 * 86_400}\nmin = 1\nmax = 60"))
    house.begin(
        hub=page("/often", "/still", "/liar", "/gone"),
        often=versions("often"),
        still=versions("still", is_still=True),
        liar=versions("liar", lies=True),
        gone=once(),
    )
    seed = {"url": house.site.url("/hub"), "appid": "news", "crawlid": "first", "maxdepth": 1}
    house.cluster.feed_in_order("news:first", seed)
    await wait_until(lambda: sum(house.visits().values()) >= 5)
    began = time.monotonic()

    def known(condition: str) -> int:
        told = f"select count(*) as n from memory where {condition}"  # noqa: S608  a constant
        return int(select(f"sqlite:///{database}", told)[0]["n"])

    with house.cluster.pipelines(file) as first:
        await wait_until(lambda: house.visits()["/often"] >= 3)
        first.kill()
        with house.cluster.pipelines(file):
            await wait_until(
                lambda: known("url like '%/liar' and is_liar and changes > 0"), every_s=0.3
            )
            await wait_until(
                lambda: known("url like '%/gone' and gone > 1 and etag is null"), every_s=0.3
            )
            await wait_until(
                lambda: known("url like '%/still' and visits > 1 and changes = 0"), every_s=0.3
            )
            await wait_until(lambda: house.visits()["/often"] >= 10)
    visits, took_s = house.visits(), time.monotonic() - began
    assert visits["/often"] > visits["/still"], visits
    assert sum(visits.values()) - 5 <= 2 * took_s
    asked = [v.headers.get("if-none-match") for v in house.site.visits if v.path == "/still"]
    assert [each for each in asked if each] == ['"still"'] * (len(asked) - asked.count(None))
    assert asked.count(None) <= 1 + len(asked) // 9
