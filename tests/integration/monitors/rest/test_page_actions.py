"""Actions in pages on their way from people to results: `crawl`, `get` and `POST /v2/scrape`."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, serving
from support.crawler.spa import JSON, html
from support.forks.program import run
from support.monitors import MonitorCluster
from support.rest import running_rest

DOCS = Path(__file__).parents[4] / "docs"
ITEMS = 500
LAMPS = html(
    """<style>li { height: 90px }</style>
<nav class=tabs><b class=reviews>Reviews</b></nav><div id=panel></div><ul id=list></ul>
<script>
let next = 0;
onscroll = async () => {
  if (next === null || scrollY + innerHeight < document.documentElement.scrollHeight - 50) return;
  const told = await (await fetch("/more?from=" + next)).json();
  next = told.next;
  for (const each of told.items) list.innerHTML += "<li><a href=/lamps/" + each + ">lamp</a>";
};
let pages = 4;
const add = () => panel.insertAdjacentHTML("beforeend", "<p>review " + (4 - --pages));
document.querySelector(".reviews").onclick = () => {
  add();
  panel.insertAdjacentHTML("afterend", "<button class=more>More</button>");
  document.querySelector(".more").onclick = event => { add(); pages || event.target.remove(); };
};
list.innerHTML = "<li><a href=/lamps/oil>lamp</a>".repeat(20);
</script>"""
)


SEARCH = html(
    "<form><input name=q></form>"
    "<script>document.write(location.pathname + location.search)</script>"
)


def more(visit: SeenRequest) -> Answer:
    """Twenty-five lamps a request."""
    first = int(visit.path.partition("=")[2])
    last = first + 25 >= ITEMS
    told = {"items": [*range(first, first + 25)], "next": None if last else first + 25}
    return Answer(orjson.dumps(told), headers=JSON)


def commands(page: str) -> list[list[str]]:
    """Return the commands of a page that are about actions."""
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [shlex.split(block) for block in blocks if "actions" in block]


async def run_here(
    cluster: MonitorCluster, site: CrawlerSite, file: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of a guide for the site of a test, with its results in a file."""
    here = [
        word.replace("https://shop.example.com", site.url(""))
        .replace("shop.example.com", "127.0.0.1")
        .replace("reviews.jsonl", str(file))
        for word in words
    ]
    how: Any = {"env": cluster.env, "folder": Path.cwd(), "timeout_s": 90}
    return await asyncio.to_thread(run, "crawlstream_cli", *here, **how)


async def allow_all(cluster: MonitorCluster) -> None:
    """Let no rule delay a page."""
    settings = cluster.settings()
    editor = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    await editor.set_rule("default", hits=1_000, window=1, moderated=False, concurrency=100)


async def test_the_commands_of_the_guide_work(cluster: MonitorCluster, tmp_path: Path) -> None:
    """Scrolls a list of 500 items to its end, opens a tab, and loads more, as the guides say.

    What cannot be done is in the answer, on stderr and in the result.
    """
    await allow_all(cluster)
    plain = html("<b class=reviews>none</b>")
    lamps = {
        "/search": SEARCH,
        "/search?q=lamp": SEARCH,
        "/lamps": LAMPS,
        "/lamps/oil": plain,
        "/robots.txt": Answer(status=404),
    }
    lists = {f"/more?from={n}": more for n in range(0, ITEMS, 25)}
    with ExitStack() as stack, serving({**lamps, **lists}) as site:
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor())
        rest = stack.enter_context(running_rest(cluster, tmp_path))
        stack.enter_context(cluster.crawler("link", CRAWLSTREAM_RENDER="true"))
        file = tmp_path / "reviews.jsonl"
        told = partial(run_here, cluster, site, file)

        (throttle_and_get, crawl, search), (curl,) = commands("rendering.md"), commands("scrape.md")
        at = throttle_and_get.index("./crawlstream", 1)
        rule = await told(*throttle_and_get[1:at])
        assert rule.returncode == 0, rule.stderr
        get = await told(*throttle_and_get[at + 1 :])
        assert get.returncode == 0, get.stderr
        found = {line.rpartition("/")[2] for line in get.stdout.split()}
        assert found == {"oil", *map(str, range(ITEMS))}
        assert site.paths() == ["/lamps", *lists]

        done = await told(*crawl[1:])
        assert done.returncode == 0, done.stderr
        lines = map(json.loads, file.read_text().splitlines())
        results = {record["url"]: record for record in lines}
        reviewed = results[site.url("/lamps")]
        assert re.findall(r"<p>(review \d)", reviewed["body"]) == [
            *("review 1", "review 2", "review 3", "review 4")
        ]
        effects = [
            {"click": ".tabs .reviews", "times": 1},
            {"click": "button.more", "times": 3},
        ]
        assert reviewed["render"]["actions"] == effects
        other = results[site.url("/lamps/oil")]["render"]
        assert ([each["times"] for each in other["actions"]], other["complete"]) == ([0, 0], True)

        order = json.loads(curl[curl.index("-d") + 1])
        order = {**order, "url": site.url("/lamps"), "wait": 60}
        scraped = (await rest.post("/v2/scrape", order)).data
        assert scraped["page"]["render"]["actions"] == [{**effects[1], "times": 0}]
        order["render"] = {"actions": [{"hover": "button.more"}]}
        scraped = (await rest.post("/v2/scrape", order)).data
        assert scraped["problems"] == ["actions: no_element"]

        del site.visits[:]
        get = await told(*search[1:])
        assert (get.returncode, get.stdout.split()) == (0, ["/search?q=lamp"]), get.stderr
        assert site.paths() == ["/search", "/search?q=lamp"]

        wished = tmp_path / "actions.json"
        wished.write_text('[{"wait": 1}, {"fill": "b", "text": "a"}]')
        get = await told("get", "https://shop.example.com/lamps/oil", "--actions", str(wished))
        assert (get.returncode, get.stdout) == (0, "**none**\n")
        assert "action 2, fill b: wrong_element: the element is not a field" in get.stderr
        get = await told("get", "https://shop.example.com/lamps", "--actions", '[{"tap": "b"}]')
        assert get.returncode == 4
        assert "render.actions[0]: unknown field 'tap'" in get.stderr
