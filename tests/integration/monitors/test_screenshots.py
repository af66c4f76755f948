"""Screenshots on their way to people: `get`, `POST /v2/scrape`, and the dashboard."""

from __future__ import annotations

import asyncio
import subprocess
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.scripted_site import Answer, serving
from support.forks.program import run
from support.monitors import MonitorCluster
from support.rest import running_rest

ROBOTS = Answer(status=404)
HIGH = Answer(b"<style>body {margin: 0}</style><h1>Lamps</h1><div style='height: 2000px'></div>")
JSON = Answer(b"{}", headers={"Content-Type": "application/json"})


async def get(cluster: MonitorCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``crawlstream get``."""
    how: Any = {"env": cluster.env, "folder": Path.cwd(), "timeout_s": 90}
    return await asyncio.to_thread(run, "crawlstream_cli", "get", *words, **how)


async def test_people_get_the_picture_of_a_page(cluster: MonitorCluster, tmp_path: Path) -> None:
    """Returns a picture from the record, and from the body store; says why there is none.

    `get` writes a PNG, `POST /v2/scrape` has it as base64, the screen of the page shows it. A
    process without the body store returns the reference.
    """
    settings, file = cluster.settings(), tmp_path / "page.png"
    editor = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    await editor.set_rule("default", hits=1_000, window=1, moderated=False, concurrency=100)
    store = {"CRAWLSTREAM_BODY_STORE": str(tmp_path / "bodies")}
    pages = {"/robots.txt": ROBOTS, "/": HIGH, "/json": JSON}
    with ExitStack() as stack, serving(pages) as site:
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor())
        rest = stack.enter_context(running_rest(cluster, tmp_path))
        with cluster.crawler("link", CRAWLSTREAM_RENDER="true"):
            done = await get(cluster, site.url("/"), "--screenshot", str(file))
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            assert "page.png: 1280 x 800 pixels" in done.stderr
            assert file.read_bytes().startswith(b"\x89PNG")
            no_html = await get(cluster, site.url("/json"), "--html", "--screenshot", str(file))
            assert (no_html.returncode, no_html.stdout) == (4, "{}")
            assert "no screenshot: not_rendered: the response is not HTML" in no_html.stderr
        with cluster.crawler("link", CRAWLSTREAM_RENDER="true", **store):
            asked = {
                "url": site.url("/"),
                "wait": 60,
                "formats": ["markdown", "screenshot"],
                "render": {"screenshot": "element:h1"},
            }
            bare = (await rest.post("/v2/scrape", asked)).data
            assert bare["markdown"].startswith("# Lamps")
            assert bare["problems"] == ["screenshot: unreachable"]
            assert "body" not in bare["screenshot"]
            rest = stack.enter_context(running_rest(cluster, tmp_path, **store))
            found = (await rest.get(f"/v2/scrape/{bare['id']}?formats=screenshot&wait=60")).data
            assert found["screenshot"]["width"] == 1280
            png = b64decode(found["screenshot"]["body"])
            assert png.startswith(b"\x89PNG")
            place = "partition={partition}&offset={offset}".format(**found["page"])
            shown = await rest.get(f"/ui/page/screenshot?{place}")
            assert (shown.headers["content-type"], shown.body) == ("image/png", png)
            screen = (await rest.get(f"/ui/page?{place}&tab=preview")).body
            assert b'src="/ui/page/screenshot?partition=' in screen
            assert found["screenshot"]["ref"].encode() in screen
